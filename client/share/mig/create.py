"""Creates the MIG instances of a geometry, and destroys exactly those again.

A GPU instance comes first, then the compute instance that fills it; they go in the reverse order.
Handles are good for one session at most: what is created here is known by its ids and its UUID.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from ctypes import byref
from dataclasses import dataclass
from typing import Any

import pynvml

from tune_farm.client.devices.gpus import list_gpus
from tune_farm.client.devices.granted import GpuPlace
from tune_farm.client.devices.nvml import told
from tune_farm.client.share.mig.driver import open_gpu
from tune_farm.client.share.mig.geometry import Geometry, Part
from tune_farm.tuner.errors import EnvironmentUnusableError

_LOG = logging.getLogger(__name__)

#: A process that has just ended may still count as a user of its instance.
_BUSY_SECONDS = 5.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """An instance that was created here."""

    uuid: str  # "MIG-…"
    gpu: str  # UUID of its GPU
    profile: str  # "1g.10gb"
    profile_id: int
    start: int  # its first memory slice
    gpu_instance: int
    compute_instance: int


def create(geometry: Geometry) -> tuple[Made, ...]:
    """Create all instances or none; whoever calls this has to `destroy` them.

    Raises:
        EnvironmentUnusableError: one can't be created; those before it are gone again.
    """
    made: list[Made] = []
    try:
        for part in geometry.parts:
            made.append(_create(geometry.gpu, part))
    except BaseException:
        destroy(made)
        raise
    return tuple(made)


def destroy(made: Sequence[Made]) -> tuple[Made, ...]:
    """Destroy what was created, the last first; what is no longer there is not missed.

    Returns:
        What is still there since the driver did not let it go; each was told in a warning.
    """
    left = []
    for each in reversed(made):
        try:
            _destroy(each)
        except EnvironmentUnusableError as error:
            left.append(each)
            _LOG.warning(
                "the MIG instance %s stays on %s: %s; as root: nvidia-smi mig -i %s -dci -gi %d "
                "-ci %d && nvidia-smi mig -i %s -dgi -gi %d",
                *(each.uuid, each.gpu, error.cause, each.gpu, each.gpu_instance),
                *(each.compute_instance, each.gpu, each.gpu_instance),
            )
    return tuple(left)


def places_of(made: Sequence[Made]) -> tuple[GpuPlace, ...]:
    """What was created, as devices that clients can be put on.

    Raises:
        EnvironmentUnusableError: one is no longer there.
    """
    found = {
        instance.uuid: GpuPlace(gpu=gpu, instance=instance)
        for gpu in list_gpus().gpus
        for instance in gpu.instances
    }
    missing = [each.uuid for each in made if each.uuid not in found]
    if missing:
        raise EnvironmentUnusableError(
            f"the MIG instance {missing[0]} was created and is not listed",
            "see 'nvidia-smi -L'; somebody else may work on the same GPU",
        )
    return tuple(found[each.uuid] for each in made)


def _create(uuid: str, part: Part) -> Made:
    with open_gpu(uuid) as gpu, ExitStack() as undo:
        instance = _gpu_instance(uuid, gpu, part)
        undo.callback(_undo, pynvml.nvmlGpuInstanceDestroy, instance)
        number = pynvml.nvmlGpuInstanceGetInfo(instance).id
        compute = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, _whole(instance, part))
        undo.callback(_undo, pynvml.nvmlComputeInstanceDestroy, compute)
        compute_number = pynvml.nvmlComputeInstanceGetInfo(compute).id
        named = _uuid(gpu, number, compute_number)
        if named is None:
            raise EnvironmentUnusableError(
                f"a MIG instance {part.profile.name} was created on {uuid} and has no UUID",
                "see 'nvidia-smi -L'",
            )
        undo.pop_all()
    return Made(
        uuid=named,
        gpu=uuid,
        profile=part.profile.name,
        profile_id=part.profile.id,
        start=part.placement.start,
        gpu_instance=number,
        compute_instance=compute_number,
    )


def _gpu_instance(uuid: str, gpu: Any, part: Part) -> Any:
    place = pynvml.c_nvmlGpuInstancePlacement_t(part.placement.start, part.placement.size)
    try:
        return pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, part.profile.id, byref(place))
    except pynvml.NVMLError_InsufficientResources:
        raise EnvironmentUnusableError(
            f"{uuid} has no room for {part.profile.name} at memory {part.placement}, which was "
            "free a moment ago",
            "somebody else creates instances there: see 'nvidia-smi mig -lgi', and try again",
        ) from None


def _whole(instance: Any, part: Part) -> int:
    """The profile of the compute instance that has all SMs of a GPU instance."""
    kinds = [
        told(
            pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo,
            instance,
            kind,
            pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED,
        )
        for kind in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
    ]
    known = [kind for kind in kinds if kind is not None]
    if not known:
        raise EnvironmentUnusableError(
            f"the NVIDIA driver names no compute profile of {part.profile.name}",
            "update the driver",
        )
    best = max(known, key=lambda kind: (kind.multiprocessorCount, kind.sliceCount))
    return int(best.id)


def _uuid(gpu: Any, gpu_instance: int, compute_instance: int) -> str | None:
    """Of the MIG device with these ids; None if there is none."""
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        device = told(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, index)
        if (
            device is not None
            and told(pynvml.nvmlDeviceGetGpuInstanceId, device) == gpu_instance
            and told(pynvml.nvmlDeviceGetComputeInstanceId, device) == compute_instance
        ):
            return told(pynvml.nvmlDeviceGetUUID, device)
    return None


def _destroy(made: Made) -> None:
    with open_gpu(made.gpu) as gpu:
        instance = _found(pynvml.nvmlDeviceGetGpuInstanceById, gpu, made.gpu_instance)
        if instance is None or not _is_ours(gpu, instance, made):
            return
        compute = _found(
            pynvml.nvmlGpuInstanceGetComputeInstanceById, instance, made.compute_instance
        )
        if compute is not None:
            _patiently(pynvml.nvmlComputeInstanceDestroy, compute)
        _patiently(pynvml.nvmlGpuInstanceDestroy, instance)


def _found(ask: Callable[[Any, int], Any], parent: Any, number: int) -> Any | None:
    """The handle, or None where there is nothing of that number; other refusals are errors."""
    try:
        return ask(parent, number)
    except pynvml.NVMLError_NotFound:
        return None


def _is_ours(gpu: Any, instance: Any, made: Made) -> bool:
    """Whether what has our number now is what we made: numbers are given out again."""
    info = pynvml.nvmlGpuInstanceGetInfo(instance)
    named = _uuid(gpu, made.gpu_instance, made.compute_instance)
    return (
        info.profileId == made.profile_id
        and info.placement.start == made.start
        and named in (None, made.uuid)
    )


def _undo(destroy: Callable[[Any], object], handle: Any) -> None:
    try:
        destroy(handle)
    except pynvml.NVMLError as error:
        _LOG.warning("a MIG instance stays half made (%s): see 'nvidia-smi mig -lgi'", error)


def _patiently(destroy: Callable[[Any], object], handle: Any) -> None:
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            destroy(handle)
        except pynvml.NVMLError_InUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)
        else:
            return
