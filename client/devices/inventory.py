"""What this machine offers, and which of it `--device` means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tune_farm.client.devices.cpu import cpu_device, usable_cores
from tune_farm.client.devices.gpus import Gpu, list_gpus
from tune_farm.client.devices.granted import GpuPlace, find, granted
from tune_farm.client.sim.gpus import SimulatedGpu, simulated_gpu
from tune_farm.tuner.build.cuda_compile import missing_compiler
from tune_farm.tuner.cuda_runtime import missing_runtime
from tune_farm.tuner.errors import EnvironmentUnusableError, UsageError
from tune_farm.tuner.types import Device

_FORMS = "auto, cpu, cuda:N, GPU-…, MIG-…, sim:NAME or replay:NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything on this machine that could be tuned for."""

    cpu: Device
    cores: tuple[int, ...]  # the CPU's, as this process may use them
    gpus: tuple[Gpu, ...]
    no_gpu_reason: str  # empty if there are GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a command works on: the CPU, GPUs, or a GPU that does not exist."""

    cores: tuple[int, ...]  # of the CPU: the device itself, or the host of one
    reason: str  # for the user: why it is this one; empty if it was asked for by name
    places: tuple[GpuPlace, ...] = ()  # GPUs or MIG instances
    simulated: SimulatedGpu | None = None


def take_inventory() -> Inventory:
    """Ask the kernel, the driver and LLVM; takes seconds (imports TVM)."""
    listing = list_gpus()
    return Inventory(
        cpu=cpu_device(), cores=usable_cores(), gpus=listing.gpus, no_gpu_reason=listing.reason
    )


def select(spec: str, environment: Mapping[str, str]) -> Selection:
    """The device that `--device` names.

    Args:
        spec: as the user gave it.
        environment: of this process: what was granted.

    Raises:
        EnvironmentUnusableError: it names a GPU that can't be used here.
        UsageError: it names no device.
    """
    kind, separator, name = spec.partition(":")
    cores = usable_cores()
    if spec == "auto":
        return _best(cores, environment)
    if spec == "cpu":
        return Selection(cores=cores, reason="")
    is_number = (name if kind == "cuda" else spec).isdecimal()
    if spec.startswith(("GPU-", "MIG-")) or spec == "cuda" or is_number:
        return Selection(cores=cores, reason="", places=_gpus(spec, environment))
    if separator and kind == "sim" and name:
        return Selection(cores=cores, reason="", simulated=simulated_gpu(spec))
    if separator and kind == "replay" and name:
        raise UsageError(
            f"device {spec!r}: replayed devices are not available in this version",
            "use --device cpu",
        )
    raise UsageError(f"device {spec!r} is not a device", f"give {_FORMS}")


def undivided_gpu(spec: str, environment: Mapping[str, str]) -> Gpu:
    """The GPU that `--device` names, for a command that divides it.

    Raises:
        EnvironmentUnusableError: there is none, or only a part of the machine was granted.
        UsageError: it names no GPU.
    """
    gpus = _listed(spec)
    grant = granted(gpus, environment)
    if grant.source:
        raise EnvironmentUnusableError(
            f"this job was granted a part of the machine ({grant.source}): what it can't use whole "
            "it can't divide",
            "leave --create-mig out, or unset the variable",
        )
    number = spec.removeprefix("auto").removeprefix("cuda").removeprefix(":") or "0"
    matching = [gpu for gpu in gpus if gpu.uuid.startswith(spec) or str(gpu.index) == number]
    if len(matching) != 1:
        raise UsageError(f"device {spec!r} is not one GPU", "see 'tune-farm devices'")
    return matching[0]


def _best(cores: tuple[int, ...], environment: Mapping[str, str]) -> Selection:
    """The first GPU that was granted, or the CPU, with the reason."""
    gpus = list_gpus().gpus
    grant = granted(gpus, environment)
    if not gpus:
        return Selection(cores=cores, reason="no GPU found")
    if not grant.places:
        by = f" ({grant.source})" if grant.source else ""
        return Selection(cores=cores, reason=f"no GPU granted{by}")
    places = find("0", gpus, grant)
    found = f"found {places[0].gpu.name}"
    missing = missing_compiler() or missing_runtime()
    if missing is not None:
        return Selection(
            cores=cores, reason=f"{found}, but not {missing}: pip install 'tune-farm[cuda]'"
        )
    return Selection(cores=cores, reason=found, places=places)


def _gpus(spec: str, environment: Mapping[str, str]) -> tuple[GpuPlace, ...]:
    gpus = _listed(spec)
    return find(spec, gpus, granted(gpus, environment))


def _listed(spec: str) -> tuple[Gpu, ...]:
    listing = list_gpus()
    if not listing.gpus:
        raise EnvironmentUnusableError(
            f"device {spec!r} cannot be used: {listing.reason}", "use --device cpu"
        )
    return listing.gpus
