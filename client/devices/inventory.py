"""What this machine offers, and which of it `--device` means."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tune_farm.client.devices.cpu import cpu_device, usable_cores
from tune_farm.client.devices.gpus import Gpu, list_gpus
from tune_farm.client.devices.granted import find, granted
from tune_farm.client.sim.gpus import SimulatedGpu, simulated_gpu
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
    """The device that a command works on."""

    device: Device
    cores: tuple[int, ...]  # of the CPU, the host's if the device is none
    reason: str  # for the user: why it is this one; empty if it was asked for by name
    simulated: SimulatedGpu | None = None  # what the device is, if it does not exist


def take_inventory() -> Inventory:
    """Ask the kernel, the driver and LLVM; takes seconds (imports TVM)."""
    listing = list_gpus()
    return Inventory(
        cpu=cpu_device(), cores=usable_cores(), gpus=listing.gpus, no_gpu_reason=listing.reason
    )


def select(spec: str) -> Selection:
    """The device that `--device` names.

    Raises:
        EnvironmentUnusableError: it names a GPU, and none can be tuned on here.
        UsageError: it names no device.
    """
    kind, separator, name = spec.partition(":")
    if spec == "auto":
        return _cpu(_why_the_cpu())
    if spec == "cpu":
        return _cpu("")
    is_number = (name if kind == "cuda" else spec).isdecimal()
    if spec.startswith(("GPU-", "MIG-")) or spec == "cuda" or is_number:
        raise _no_gpu(spec)
    if separator and kind == "sim" and name:
        gpu = simulated_gpu(spec)
        return Selection(device=gpu.device(), cores=usable_cores(), reason="", simulated=gpu)
    if separator and kind == "replay" and name:
        raise UsageError(
            f"device {spec!r}: replayed devices are not available in this version",
            "use --device cpu",
        )
    raise UsageError(f"device {spec!r} is not a device", f"give {_FORMS}")


def _cpu(reason: str) -> Selection:
    return Selection(device=cpu_device(), cores=usable_cores(), reason=reason)


def _why_the_cpu() -> str:
    if list_gpus().gpus:
        return "tuning on GPUs is not available in this version"
    return "no GPU found"


def _no_gpu(spec: str) -> EnvironmentUnusableError:
    """Why a GPU can't be tuned on; raises what is wrong with the name itself."""
    listing = list_gpus()
    cause = listing.reason
    if listing.gpus:
        place = find(spec, listing.gpus, granted(listing.gpus, os.environ))[0]
        cause = f"it is {place.name}, and tuning on GPUs is not available in this version"
    return EnvironmentUnusableError(f"device {spec!r} cannot be used: {cause}", "use --device cpu")
