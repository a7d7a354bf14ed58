"""What the driver tells of the MIG instances that a GPU has, and of those that it could have."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref, c_uint
from typing import Any

import pynvml

from tune_farm.client.devices.nvml import told
from tune_farm.client.share.mig.driver import open_gpu
from tune_farm.client.share.mig.geometry import Capacity, Placement, Profile
from tune_farm.tuner.errors import EnvironmentUnusableError

_MIB = 1 << 20


def read_capacity(uuid: str) -> Capacity:
    """Ask what can be created on a GPU; changes nothing.

    Args:
        uuid: of the GPU, not of an instance.

    Raises:
        EnvironmentUnusableError: it is not in MIG mode, or this user may not ask.
    """
    with open_gpu(uuid) as gpu:
        _require_mode(uuid, gpu)
        profiles: list[Profile] = []
        taken: list[Placement] = []
        for info in _profile_infos(gpu):
            profiles.append(_profile(gpu, info))
            taken += _taken(gpu, info)
        if not profiles:
            raise EnvironmentUnusableError(
                f"the NVIDIA driver names no MIG profile of {uuid}", "update the driver"
            )
        name = told(pynvml.nvmlDeviceGetName, gpu) or "unknown NVIDIA GPU"
    return Capacity(gpu=uuid, name=name, profiles=tuple(profiles), taken=tuple(taken))


def _require_mode(uuid: str, gpu: Any) -> None:
    """The mode is never switched here: that resets the GPU, or strands whoever works on it."""
    mode = told(pynvml.nvmlDeviceGetMigMode, gpu)
    if mode is None:
        raise EnvironmentUnusableError(
            f"{uuid} knows no MIG mode, or hides it",
            "leave out --create-mig; --sm-share divides it by MPS",
        )
    current, pending = mode
    if current:
        return
    if pending:
        raise EnvironmentUnusableError(
            f"MIG mode of {uuid} is switched on and not yet in force",
            f"end what uses the GPU, then as root: nvidia-smi --gpu-reset -i {uuid}",
        )
    raise EnvironmentUnusableError(
        f"{uuid} is not in MIG mode, and tune-farm never switches it",
        f"as root: nvidia-smi -i {uuid} -mig 1; or leave out --create-mig",
    )


def _profile_infos(gpu: Any) -> Iterator[Any]:
    for kind in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            yield pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, kind)
        except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument):
            continue  # not of this GPU, or not known to this driver


def _profile(gpu: Any, info: Any) -> Profile:
    return Profile(
        id=info.id,
        name=info.name.removeprefix("MIG ").strip(),
        slices=info.sliceCount,
        sm_count=info.multiprocessorCount,
        memory_bytes=info.memorySizeMB * _MIB,
        left=pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, info.id),
        placements=_placements(gpu, info),
    )


def _placements(gpu: Any, info: Any) -> tuple[Placement, ...]:
    count = c_uint()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, info.id, None, byref(count))
    if not count.value:
        return ()
    found = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, info.id, found, byref(count))
    return tuple(Placement(start=each.start, size=each.size) for each in found)


def _taken(gpu: Any, info: Any) -> list[Placement]:
    """Where the instances of one kind lie that are there already."""
    count = c_uint(info.instanceCount)
    found = (pynvml.c_nvmlGpuInstance_t * info.instanceCount)()
    pynvml.nvmlDeviceGetGpuInstances(gpu, info.id, found, byref(count))
    places = [pynvml.nvmlGpuInstanceGetInfo(each).placement for each in found[: count.value]]
    return [Placement(start=place.start, size=place.size) for place in places]
