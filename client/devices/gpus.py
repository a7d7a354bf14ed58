"""GPUs and their MIG instances, as the NVIDIA driver lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pynvml

from tune_farm.client.devices.nvml import NoDriverError, session, told

#: CUDA cores of one SM by compute capability: NVML tells cores, not SMs. Only for people to read:
#: what is tuned for is counted by the CUDA driver; an unknown generation is shown without a number.
_CORES_PER_SM = {
    (6, 0): 64, (6, 1): 128, (6, 2): 128,
    (7, 0): 64, (7, 2): 64, (7, 5): 64,
    (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128, (10, 3): 128,
    (12, 0): 128, (12, 1): 128,
}  # fmt: skip
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """One MIG device: a compute instance in a GPU instance. None is what the driver hid."""

    uuid: str
    index: int  # NVML's own; changes when instances come and go
    profile: str  # "1g.10gb", as the driver names it; empty if it does not
    sm_count: int | None
    memory_bytes: int | None
    gpu_slices: int | None
    compute_slices: int | None
    gpu_instance: int | None
    compute_instance: int | None


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
    instances: tuple[MigInstance, ...]  # in NVML's order
    compute_mode: int | None  # 0 shared, 2 prohibited, 3 one process (MPS's server counts as one)
    pids: tuple[int, ...]  # processes that compute on it, in NVML's order


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuListing:
    """The GPUs of this machine, or why none could be listed."""

    gpus: tuple[Gpu, ...]
    reason: str  # why there is no GPU; empty if there is one


def list_gpus() -> GpuListing:
    """Ask the driver; a machine without one gives an empty list with the reason, never an error."""
    try:
        with session():
            gpus = _read_gpus()
    except NoDriverError as error:
        return GpuListing(gpus=(), reason=str(error))
    except pynvml.NVMLError as error:
        return GpuListing(gpus=(), reason=f"the NVIDIA driver does not list its GPUs: {error}")
    return GpuListing(gpus=gpus, reason="" if gpus else "the NVIDIA driver lists no GPU")


def _read_gpus() -> tuple[Gpu, ...]:
    driver = told(pynvml.nvmlSystemGetDriverVersion) or "unknown"
    found = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        except pynvml.NVMLError:
            continue  # fell off the bus, or belongs to someone else: the others still count
        found.append(_read_gpu(index, handle, driver))
    return tuple(found)


def _read_gpu(index: int, handle: Any, driver: str) -> Gpu:
    capability = told(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    cores = told(pynvml.nvmlDeviceGetNumGpuCores, handle)
    per_sm = _CORES_PER_SM.get(tuple(capability)) if capability else None
    memory = told(pynvml.nvmlDeviceGetMemoryInfo, handle)
    mig = told(pynvml.nvmlDeviceGetMigMode, handle)
    enabled = bool(mig[0]) if mig else None
    processes = told(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
    return Gpu(
        index=index,
        uuid=told(pynvml.nvmlDeviceGetUUID, handle) or f"unknown-{index}",
        name=told(pynvml.nvmlDeviceGetName, handle) or "unknown NVIDIA GPU",
        driver=driver,
        sm_count=cores // per_sm if cores and per_sm else None,
        memory_bytes=memory.total if memory else None,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        mig_enabled=enabled,
        instances=tuple(_instances(handle)) if enabled else (),
        compute_mode=told(pynvml.nvmlDeviceGetComputeMode, handle),
        pids=tuple(process.pid for process in processes),
    )


def _instances(handle: Any) -> list[MigInstance]:
    found = []
    for index in range(told(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        instance = told(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        uuid = told(pynvml.nvmlDeviceGetUUID, instance) if instance else None
        if uuid is not None:  # else a hole, or one that is not ours to see
            found.append(_read_instance(index, uuid, instance))
    return found


def _read_instance(index: int, uuid: str, handle: Any) -> MigInstance:
    attributes = told(pynvml.nvmlDeviceGetAttributes_v2, handle)
    name = told(pynvml.nvmlDeviceGetName, handle) or ""
    return MigInstance(
        uuid=uuid,
        index=index,
        profile=name.partition(" MIG ")[2],
        sm_count=attributes.multiprocessorCount if attributes else None,
        memory_bytes=attributes.memorySizeMB * _MIB if attributes else None,
        gpu_slices=attributes.gpuInstanceSliceCount if attributes else None,
        compute_slices=attributes.computeInstanceSliceCount if attributes else None,
        gpu_instance=told(pynvml.nvmlDeviceGetGpuInstanceId, handle),
        compute_instance=told(pynvml.nvmlDeviceGetComputeInstanceId, handle),
    )
