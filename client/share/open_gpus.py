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
from tune_farm.client.share.host import host_cores
from tune_farm.client.share.mps.control import PIPE_DIRECTORY
from tune_farm.client.share.mps.daemon import PERCENTAGE, Daemon, adopt_or_start, stop
from tune_farm.client.share.mps.handshake import Expected
from tune_farm.client.share.mps.prove import ask_whole, prove, without_mps
from tune_farm.client.share.plan import GpuOffer, GpuSlot, plan_gpu_slots
from tune_farm.client.share.runtime_probe import require_runtime
from tune_farm.client.share.seat import GpuSeat
from tune_farm.client.share.slot import Slot
from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.predictor.machine import Gpu
from tune_farm.tuner.types import Device, DeviceClass, Share, ShareKind

#: The share of one client, or what was set for this job.
Percent = int | Literal["auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGpus:
    """GPUs or MIG instances of one kind, divided among clients."""

    device: Device  # the first of them
    machine: Gpu  # one client's share of it
    slots: tuple[Slot, ...]


@contextmanager
def open_gpus(
    places: Sequence[GpuPlace],
    *,
    percent: Percent,
    clients: int | None,
    oversubscribes: bool,
    cores: Sequence[int],
    environment: Mapping[str, str],
    root: Path | None = None,
) -> Iterator[OpenGpus]:
    """Divide devices; daemons that were started for it end with the context.

    Args:
        places: the devices; at least one.
        percent: one client's share.
        clients: how many; None for as many as fit.
        oversubscribes: shares of one device may add up to more than all of it.
        cores: of the host.
        environment: of this process.
        root: short and node-local, for sockets of daemons; None: in /tmp.

    Raises:
        UsageError: the devices are not alike, or the shares do not fit.
        EnvironmentUnusableError: no such share can be had here; nothing of it is in force.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tf-", dir=root)))
        wholes = {place.uuid: ask_whole(place, folder) for place in places}
        _require_alike(wholes)
        daemons: dict[str, Daemon] = {}
        if _divides(percent, environment):
            for place in places:
                daemon = adopt_or_start(place, environment, root=root)
                stack.callback(stop, daemon)
                daemons[place.uuid] = daemon
        ceiling = float(environment.get(PERCENTAGE) or 100)
        offers = [_offer(place, wholes[place.uuid], daemons, ceiling) for place in places]
        planned = plan_gpu_slots(offers, percent, clients, oversubscribes=oversubscribes)
        granted: dict[str, int] = {}
        for slot in planned:
            if slot.uuid not in granted:
                granted[slot.uuid] = _prove(slot, daemons, folder)
        hosts = host_cores(cores, len(planned))
        seats = [_seat(slot, daemons, folder) for slot in planned]
        require_runtime(seats[0], folder)  # last: what is wrong with the share counts more
        slots = tuple(
            Slot(
                name=slot.name,
                measure_cores=measure,
                build_cores=build,
                share=_share(slot, granted[slot.uuid]),
                gpu=slot.uuid,
                seat=seat,
            )
            for slot, (measure, build), seat in zip(planned, hosts, seats, strict=True)
        )
        whole = wholes[places[0].uuid]
        yield OpenGpus(
            device=_device(places[0], whole),
            machine=gpu_machine(whole, slots[0].share.granted),
            slots=slots,
        )


def _divides(percent: Percent, environment: Mapping[str, str]) -> bool:
    if percent != "auto":
        return percent < 100
    return any(environment.get(name) for name in (PERCENTAGE, PIPE_DIRECTORY))


def _require_alike(wholes: Mapping[str, CudaDevice]) -> None:
    """A schedule is tuned for one number of SMs: one run tunes on devices that have it."""
    kinds = {(whole.name, whole.sm_count): uuid for uuid, whole in wholes.items()}
    if len(kinds) > 1:
        found = ", ".join(f"{uuid[:12]} with {sms} SMs" for (_, sms), uuid in kinds.items())
        raise UsageError(
            f"the devices are not alike: {found}", "give those of one kind by UUID with --device"
        )


def _offer(
    place: GpuPlace, whole: CudaDevice, daemons: Mapping[str, Daemon], ceiling: float
) -> GpuOffer:
    daemon = daemons.get(place.uuid)
    instance = place.instance
    own = instance.compute_slices if instance is not None else None
    return GpuOffer(
        uuid=place.uuid,
        total=whole.sm_count,
        memory_bytes=whole.memory_bytes,
        is_mig=instance is not None,
        slices=(own or 1, _slices(place) if own else 1),
        ceiling_percent=min(ceiling, 100.0 if daemon is None else daemon.ceiling_percent),
        cuda=whole.cuda,
    )


def _slices(place: GpuPlace) -> int:
    """Compute slices of all of a GPU in MIG mode: seven, on all that can be divided so far."""
    return max(7, sum(each.compute_slices or 0 for each in place.gpu.instances))


def _prove(slot: GpuSlot, daemons: Mapping[str, Daemon], folder: Path) -> int:
    if not slot.needs_mps:
        return slot.total
    return prove(daemons[slot.uuid], _expected(slot), folder)


def _expected(slot: GpuSlot) -> Expected:
    return Expected(uuid=slot.uuid, total=slot.total, percent=slot.asked_percent)


def _share(slot: GpuSlot, granted: int) -> Share:
    kinds: dict[str, ShareKind] = {"whole": "whole", "mps": "mps", "mig": "mig"}
    return Share(
        kind=kinds[slot.mode], asked_percent=slot.asked_percent, granted=granted, total=slot.total
    )


def _seat(slot: GpuSlot, daemons: Mapping[str, Daemon], folder: Path) -> GpuSeat:
    expected = _expected(slot)
    if not slot.needs_mps:
        nowhere = without_mps(slot.uuid, folder)
        return GpuSeat(expected=expected, environment=tuple(nowhere.items()), control=None)
    daemon = daemons[slot.uuid]
    born = daemon.environment(slot.asked_percent, memory_bytes=slot.memory_bytes)
    return GpuSeat(expected=expected, environment=tuple(born.items()), control=daemon.control)


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
