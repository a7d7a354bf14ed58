"""What a run tunes for, settled before anything heavy starts: a device, and its shares."""

from __future__ import annotations

from dataclasses import dataclass

from tune_farm.client.devices.compiler import require_compiler
from tune_farm.client.devices.cpu_core import cpu_core
from tune_farm.client.devices.inventory import Selection, select
from tune_farm.client.share.cores import describe, plan_slots
from tune_farm.client.share.plan import GpuOffer, plan_gpu_slots
from tune_farm.client.share.slot import Slot
from tune_farm.client.sim.gpus import SimulatedGpu
from tune_farm.tuner.predictor.machine import Cpu, Gpu
from tune_farm.tuner.types import Device, Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A device, divided among clients."""

    selection: Selection
    slots: tuple[Slot, ...]

    @property
    def device(self) -> Device:
        """What is tuned for."""
        return self.selection.device

    @property
    def share(self) -> Share:
        """Of each client."""
        return self.slots[0].share

    @property
    def simulated(self) -> SimulatedGpu | None:
        """What the device is, if it does not exist."""
        return self.selection.simulated

    @property
    def machine(self) -> Cpu | Gpu:
        """The share as the predictor's laws see it."""
        if self.simulated is not None:
            return self.simulated.machine_of(self.share)
        return cpu_core(self.share.granted)

    @property
    def headline(self) -> str:
        """The first line that a user reads: what is tuned for, and why."""
        if self.simulated is not None:
            return _simulated_text(self.simulated, self.share, len(self.slots))
        what = describe(self.slots, self.device.device_class.name)
        reason = self.selection.reason
        return f"{reason}: {what}" if reason else what


def find_place(device: str, percent: int, clients: int | None, *, builds: bool = True) -> Place:
    """Choose the device and divide it.

    Args:
        device: as `--device` names it.
        percent: one client's share.
        clients: how many; None for as many as fit.
        builds: whether something will be built there; then a compiler has to be at hand.

    Raises:
        UsageError: the share or the clients asked for do not fit.
        EnvironmentUnusableError: no such device, or no compiler.
    """
    selection = select(device)
    if selection.simulated is not None:
        slots = _simulated_slots(selection, selection.simulated, percent, clients)
        return Place(selection=selection, slots=slots)
    if builds:
        require_compiler()
    return Place(selection=selection, slots=plan_slots(selection.cores, percent, clients))


def _simulated_slots(
    selection: Selection, gpu: SimulatedGpu, percent: int, clients: int | None
) -> tuple[Slot, ...]:
    offer = GpuOffer(
        uuid=gpu.id, total=gpu.machine.total_sms, memory_bytes=gpu.memory_bytes, is_mig=False
    )
    cores = selection.cores
    return tuple(
        Slot(
            name=slot.name,
            measure_cores=(cores[index % len(cores)],),
            build_cores=cores,
            share=gpu.share(slot.asked_percent),
            gpu=slot.uuid,
        )
        for index, slot in enumerate(plan_gpu_slots([offer], percent, clients))
    )


def _simulated_text(gpu: SimulatedGpu, share: Share, clients: int) -> str:
    count = f"{clients} client" + ("" if clients == 1 else "s")
    return (
        f"SIMULATED: tuning for {gpu.id} ({gpu.name}), {share.asked_percent}% = {share.granted} of "
        f"{share.total} SMs, {count}; no GPU is used and nothing is compiled: times follow a law"
    )
