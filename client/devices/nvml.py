"""GPUs as the NVIDIA driver lists them; the only place that speaks NVML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pynvml

_Value = TypeVar("_Value")

#: CUDA cores of one SM by compute capability: NVML tells cores, not SMs. The driver's own answer
#: counts once GPUs are tuned on; an unknown generation is shown without a number.
_CORES_PER_SM = {
    (6, 0): 64, (6, 1): 128, (6, 2): 128,
    (7, 0): 64, (7, 2): 64, (7, 5): 64,
    (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128, (10, 3): 128,
    (12, 0): 128, (12, 1): 128,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One physical GPU; None is what the driver would not tell."""

    index: int  # NVML's own; CUDA_VISIBLE_DEVICES does not change it
    uuid: str
    name: str
    driver: str
    sm_count: int | None
    memory_bytes: int | None
    compute_capability: str | None  # "9.0"
    mig_enabled: bool | None  # None: this GPU knows no MIG, or we may not ask


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuListing:
    """The GPUs of this machine, or why none could be listed."""

    gpus: tuple[Gpu, ...]
    reason: str  # why there is no GPU; empty if there is one


def list_gpus() -> GpuListing:
    """Ask the driver; a machine without one gives an empty list with the reason, never an error."""
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return GpuListing(gpus=(), reason="no NVIDIA driver found")
    except pynvml.NVMLError as error:
        return GpuListing(gpus=(), reason=f"the NVIDIA driver does not answer: {error}")
    try:
        gpus = _read_gpus()
    except pynvml.NVMLError as error:
        return GpuListing(gpus=(), reason=f"the NVIDIA driver does not list its GPUs: {error}")
    finally:
        pynvml.nvmlShutdown()
    return GpuListing(gpus=gpus, reason="" if gpus else "the NVIDIA driver lists no GPU")


def _read_gpus() -> tuple[Gpu, ...]:
    driver = _told(pynvml.nvmlSystemGetDriverVersion) or "unknown"
    found = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        except pynvml.NVMLError:
            continue  # fell off the bus, or belongs to someone else: the others still count
        found.append(_read_gpu(index, handle, driver))
    return tuple(found)


def _read_gpu(index: int, handle: Any, driver: str) -> Gpu:
    capability = _told(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    cores = _told(pynvml.nvmlDeviceGetNumGpuCores, handle)
    per_sm = _CORES_PER_SM.get(tuple(capability)) if capability else None
    memory = _told(pynvml.nvmlDeviceGetMemoryInfo, handle)
    mig = _told(pynvml.nvmlDeviceGetMigMode, handle)
    return Gpu(
        index=index,
        uuid=_told(pynvml.nvmlDeviceGetUUID, handle) or f"unknown-{index}",
        name=_told(pynvml.nvmlDeviceGetName, handle) or "unknown NVIDIA GPU",
        driver=driver,
        sm_count=cores // per_sm if cores and per_sm else None,
        memory_bytes=memory.total if memory else None,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        mig_enabled=bool(mig[0]) if mig else None,
    )


def _told(ask: Callable[..., _Value], *arguments: object) -> _Value | None:
    """The answer, or None where this GPU, driver or user has none to get."""
    try:
        return ask(*arguments)
    except pynvml.NVMLError:
        return None
