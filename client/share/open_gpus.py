"""Opens GPUs for tuning: asks what they are, divides them, and proves each share first."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tune_farm.client.devices.cuda_driver import CudaDevice
from tune_farm.client.devices.cuda_machine import gpu_machine
from tune_farm.client.devices.granted import GpuPlace
from tune_farm.client.share.divide import ByPercentage, Division, Undivided, start_partitioned
from tune_farm.client.share.held import Whole, find_whole
from tune_farm.client.share.host import host_cores
from tune_farm.client.share.mps.control import PIPE_DIRECTORY
from tune_farm.client.share.mps.daemon import PERCENTAGE, Daemon, adopt_or_start, stop
from tune_farm.client.share.plan import GpuOffer, plan_gpu_slots
from tune_farm.client.share.prove import prove
from tune_farm.client.share.runtime_probe import require_runtime
from tune_farm.client.share.slot import Slot
from tune_farm.tuner.errors import EnvironmentUnusableError, UsageError
from tune_farm.tuner.predictor.machine import Gpu
from tune_farm.tuner.types import Device, DeviceClass, Share

#: The share of one client, or what was set for this job.
Percent = int | Literal["auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How devices are to be divided."""

    percent: Percent  # one client's share
    clients: int | None  # None: as many as fit
    oversubscribes: bool  # shares of one device may add up to more than all of it
    in_partitions: bool  # static ones; else active thread percentages


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGpus:
    """GPUs or MIG instances of one kind, divided among clients."""

    device: Device  # the first of them
    machine: Gpu  # one client's share of it
    slots: tuple[Slot, ...]


@contextmanager
def open_gpus(
    places: Sequence[GpuPlace],
    wanted: Wanted,
    *,
    cores: Sequence[int],
    environment: Mapping[str, str],
    root: Path | None = None,
) -> Iterator[OpenGpus]:
    """Divide devices; daemons that were started for it end with the context.

    Args:
        places: the devices; at least one.
        wanted: how they are divided.
        cores: of the host.
        environment: of this process.
        root: short and node-local, for sockets of daemons; None: in /tmp.

    Raises:
        UsageError: the devices are not alike, or the shares do not fit.
        EnvironmentUnusableError: no such share can be had here; nothing of it is in force.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tf-", dir=root)))
        wholes = {place.uuid: find_whole(place, environment, folder) for place in places}
        _require_alike(wholes)
        divisions: dict[str, Division] = {}
        for place in places:
            holder = wholes[place.uuid].holder
            division, daemon = _divide(place, wanted, environment, folder, root, holder)
            if daemon is not None:
                stack.callback(stop, daemon)
            divisions[place.uuid] = division
        offers = [
            _offer(place, wholes[place.uuid].device, divisions[place.uuid], environment)
            for place in places
        ]
        planned = plan_gpu_slots(
            offers, wanted.percent, wanted.clients, oversubscribes=wanted.oversubscribes
        )
        seats = [divisions[slot.uuid].seat(slot) for slot in planned]
        granted = [prove(seat, folder) for seat in seats]
        _require_equal(granted)
        require_runtime(seats[0], folder)  # last: what is wrong with the share counts more
        hosts = host_cores(cores, len(planned))
        slots = tuple(
            Slot(
                name=slot.name,
                measure_cores=measure,
                build_cores=build,
                share=Share(
                    kind=divisions[slot.uuid].kind,
                    asked_percent=slot.asked_percent,
                    granted=sms,
                    total=slot.total,
                ),
                gpu=slot.uuid,
                seat=seat,
            )
            for slot, (measure, build), seat, sms in zip(
                planned, hosts, seats, granted, strict=True
            )
        )
        whole = wholes[places[0].uuid].device
        yield OpenGpus(
            device=_device(places[0], whole),
            machine=gpu_machine(whole, slots[0].share.granted),
            slots=slots,
        )


def _divide(
    place: GpuPlace,
    wanted: Wanted,
    environment: Mapping[str, str],
    folder: Path,
    root: Path | None,
    holder: Daemon | None,
) -> tuple[Division, Daemon | None]:
    if holder is not None and not wanted.in_partitions:
        return ByPercentage(holder), holder  # also for all of it: nobody else is let in
    if not _divides(wanted.percent, environment):
        return Undivided(is_mig=place.instance is not None, folder=folder), None
    if wanted.in_partitions:
        daemon, division = start_partitioned(place, environment, root)
        return division, daemon
    daemon = adopt_or_start(place, environment, root=root)
    return ByPercentage(daemon), daemon


def _divides(percent: Percent, environment: Mapping[str, str]) -> bool:
    if percent != "auto":
        return percent < 100
    return any(environment.get(name) for name in (PERCENTAGE, PIPE_DIRECTORY))


def _require_alike(wholes: Mapping[str, Whole]) -> None:
    """A schedule is tuned for one number of SMs: one run tunes on devices that have it."""
    devices = {uuid: whole.device for uuid, whole in wholes.items()}
    kinds = {(device.name, device.sm_count): uuid for uuid, device in devices.items()}
    if len(kinds) > 1:
        found = ", ".join(f"{uuid[:12]} with {sms} SMs" for (_, sms), uuid in kinds.items())
        raise UsageError(
            f"the devices are not alike: {found}", "give those of one kind by UUID with --device"
        )


def _require_equal(granted: Sequence[int]) -> None:
    if len(set(granted)) > 1:
        found = ", ".join(map(str, granted))
        raise EnvironmentUnusableError(
            f"the clients' shares are not alike: {found} SMs",
            "fewer clients, or another --sm-share",
        )


def _offer(
    place: GpuPlace, whole: CudaDevice, division: Division, environment: Mapping[str, str]
) -> GpuOffer:
    instance = place.instance
    own = instance.compute_slices if instance is not None else None
    return GpuOffer(
        uuid=place.uuid,
        total=whole.sm_count,
        memory_bytes=whole.memory_bytes,
        is_mig=instance is not None,
        slices=(own or 1, _slices(place) if own else 1),
        ceiling_percent=min(float(environment.get(PERCENTAGE) or 100), division.ceiling_percent),
        cuda=whole.cuda,
    )


def _slices(place: GpuPlace) -> int:
    """Compute slices of all of a GPU in MIG mode: seven, on all that can be divided so far."""
    return max(7, sum(each.compute_slices or 0 for each in place.gpu.instances))


def _device(place: GpuPlace, whole: CudaDevice) -> Device:
    return Device(
        device_class=DeviceClass(
            kind="cuda",
            name=place.name,
            total=whole.sm_count,
            memory_bytes=whole.memory_bytes,
            architecture=whole.compute_capability,
        ),
        uuid=place.uuid,
        host=socket.gethostname(),
        driver=place.gpu.driver,
    )
