"""What a run tunes for, settled before anything heavy starts: a device, and its shares."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tune_farm.client.devices.compiler import require_compiler
from tune_farm.client.devices.cpu import cpu_device, usable_cores
from tune_farm.client.devices.cpu_core import cpu_core
from tune_farm.client.devices.granted import GpuPlace
from tune_farm.client.devices.inventory import Selection, select, undivided_gpu
from tune_farm.client.share.cores import describe, plan_slots
from tune_farm.client.share.host import host_cores
from tune_farm.client.share.mig.capacity import read_capacity
from tune_farm.client.share.mig.geometry import Geometry, choose_for_clients
from tune_farm.client.share.mig.kept import created
from tune_farm.client.share.open_gpus import OpenGpus, Wanted, open_gpus
from tune_farm.client.share.plan import GpuOffer, plan_gpu_slots
from tune_farm.client.share.slot import Slot
from tune_farm.client.sim.gpus import SimulatedGpu
from tune_farm.server.config import RunConfig
from tune_farm.tuner.build.cuda_compile import missing_compiler
from tune_farm.tuner.errors import EnvironmentUnusableError, UsageError
from tune_farm.tuner.predictor.machine import Cpu, Gpu
from tune_farm.tuner.types import Device, Share

_WHOLE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A device, divided among clients."""

    device: Device
    slots: tuple[Slot, ...]
    machine: Cpu | Gpu  # one client's share, as the predictor's laws see it
    headline: str  # the first line that a user reads: what is tuned for, and why
    simulated: SimulatedGpu | None = None  # what the device is, if it does not exist

    @property
    def share(self) -> Share:
        """Of each client."""
        return self.slots[0].share

    def corunners(self, slot: Slot) -> int:
        """Other clients on the device of one: a GPU's neighbors, or all on the CPU."""
        return sum(each.gpu == slot.gpu for each in self.slots) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked for."""

    device: str  # as `--device` names it
    percent: int | None = _WHOLE  # one client's share; None: what was set for this job, else all
    clients: int | None = None  # None: as many as fit
    oversubscribes: bool = False  # shares may add up to more than the device
    creates_mig: bool = False  # an instance for each client, gone when the place is closed
    in_partitions: bool = False  # static ones of a GPU; else active thread percentages


def wish_of(config: RunConfig) -> Wish:
    """What a run was asked for."""
    return Wish(
        device=config.device,
        percent=config.sm_share_percent,
        clients=config.clients,
        oversubscribes=config.oversubscribe,
        creates_mig=config.create_mig,
        in_partitions=config.static_partitions,
    )


def mig_geometry(wish: Wish) -> Geometry:
    """The MIG instances that a wish would have created.

    Raises:
        UsageError: it does not say how many, or names no GPU.
        EnvironmentUnusableError: they can't be created.
    """
    if wish.clients is None:
        raise UsageError("how many MIG instances to create is not said", "give --clients N")
    gpu = undivided_gpu(wish.device, os.environ)
    return choose_for_clients(read_capacity(gpu.uuid), wish.clients)


@contextmanager
def open_place(
    wish: Wish,
    *,
    builds: bool = True,
    root: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[Place]:
    """Choose the device and divide it; what was started for that ends with the context.

    Args:
        wish: what was asked for.
        builds: whether something will be built there; then a compiler has to be at hand.
        root: short and node-local, for sockets of daemons; None: in /tmp.
        say: shows the user one line at once: what is going to be created.

    Raises:
        UsageError: the share or the clients asked for do not fit.
        EnvironmentUnusableError: no such device or share, or no compiler.
    """
    if wish.creates_mig:
        if builds:
            require_compiler()  # before anything is created
        with _with_mig(wish, root, say) as places:
            selection = Selection(cores=usable_cores(), reason="", places=places)
            with _gpus(selection, wish, builds=builds, root=root) as place:
                yield place
        return
    selection = select(wish.device, os.environ)
    if selection.simulated is not None:
        yield _simulated(selection, selection.simulated, wish)
        return
    if not selection.places:
        if builds:
            require_compiler()
        yield _cpu(selection, wish)
        return
    with _gpus(selection, wish, builds=builds, root=root) as place:
        yield place


@contextmanager
def _with_mig(
    wish: Wish, root: Path | None, say: Callable[[str], None]
) -> Iterator[tuple[GpuPlace, ...]]:
    geometry = mig_geometry(wish)
    for line in geometry.lines():
        say(line)
    with ExitStack() as stack:
        folder = root or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tf-")))
        yield stack.enter_context(created(geometry, folder))


@contextmanager
def _gpus(selection: Selection, wish: Wish, *, builds: bool, root: Path | None) -> Iterator[Place]:
    if builds:
        require_compiler()
    wanted = Wanted(
        percent="auto" if wish.percent is None else wish.percent,
        clients=wish.clients,
        oversubscribes=wish.oversubscribes,
        in_partitions=wish.in_partitions,
    )
    with open_gpus(
        selection.places,
        wanted,
        cores=selection.cores,
        environment=os.environ,
        root=root,
    ) as gpus:
        missing = missing_compiler() if builds else None
        if missing is not None:
            raise EnvironmentUnusableError(
                f"there is not {missing}", "pip install 'tune-farm[cuda]'"
            )
        yield Place(
            device=gpus.device,
            slots=gpus.slots,
            machine=gpus.machine,
            headline=_because(selection, _gpu_text(gpus)),
        )


def cpu_place(percent: int, clients: int | None) -> Place:
    """This machine's CPU, divided; nothing is started for it."""
    wish = Wish(device="cpu", percent=percent, clients=clients)
    return _cpu(select(wish.device, os.environ), wish)


def _cpu(selection: Selection, wish: Wish) -> Place:
    for is_wanted, option in (
        (wish.in_partitions, "--static-partitions"),
        (wish.oversubscribes, "--oversubscribe"),
    ):
        if is_wanted:
            raise UsageError(f"{option} is for GPUs, and this run is for the CPU", "leave it out")
    slots = plan_slots(selection.cores, _percent(wish), wish.clients)
    device = cpu_device()
    return Place(
        device=device,
        slots=slots,
        machine=cpu_core(slots[0].share.granted),
        headline=_because(selection, describe(slots, device.device_class.name)),
    )


def _percent(wish: Wish) -> int:
    return _WHOLE if wish.percent is None else wish.percent


def _simulated(selection: Selection, gpu: SimulatedGpu, wish: Wish) -> Place:
    offer = GpuOffer(
        uuid=gpu.id, total=gpu.machine.total_sms, memory_bytes=gpu.memory_bytes, is_mig=False
    )
    planned = plan_gpu_slots(
        [offer], _percent(wish), wish.clients, oversubscribes=wish.oversubscribes
    )
    hosts = host_cores(selection.cores, len(planned))
    slots = tuple(
        Slot(
            name=slot.name,
            measure_cores=measure,
            build_cores=build,
            share=gpu.share(slot.asked_percent),
            gpu=slot.uuid,
        )
        for slot, (measure, build) in zip(planned, hosts, strict=True)
    )
    share = slots[0].share
    return Place(
        device=gpu.device(),
        slots=slots,
        machine=gpu.machine_of(share),
        headline=(
            f"SIMULATED: tuning for {gpu.id} ({gpu.name}), {_share_text(share, len(slots))}; no "
            "GPU is used and nothing is compiled: times follow a law"
        ),
        simulated=gpu,
    )


def _gpu_text(gpus: OpenGpus) -> str:
    share, device = gpus.slots[0].share, gpus.device
    by = {
        "mps": "proven under MPS",
        "mps-static": "proven in static partitions",
        "mig": "in MIG instances",
        "whole": "undivided",
    }
    return (
        f"tuning for {device.device_class.name} ({device.uuid[:12]}), "
        f"{_share_text(share, len(gpus.slots))}, {by.get(share.kind, share.kind)}"
    )


def _share_text(share: Share, clients: int) -> str:
    count = f"{clients} client" + ("" if clients == 1 else "s")
    return f"{share.asked_percent}% = {share.granted} of {share.total} SMs, {count}"


def _because(selection: Selection, what: str) -> str:
    return f"{selection.reason}: {what}" if selection.reason else what
