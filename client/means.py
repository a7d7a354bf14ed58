"""What a client builds and measures with, by its device."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

from tune_farm.client.share.lane import Lane
from tune_farm.client.share.lane_guard import LaneGuard
from tune_farm.client.share.mps import child
from tune_farm.client.share.seat_guard import SeatGuard
from tune_farm.client.share.slot import Slot
from tune_farm.client.sim.builder import SimulatedBuilder
from tune_farm.client.sim.child import BEHAVIOR
from tune_farm.client.sim.gpus import SimulatedGpu
from tune_farm.client.sim.truth import Truth
from tune_farm.tuner.build.pool import BuildOptions, BuildPool
from tune_farm.tuner.measure.guard import Guard, NoGuard
from tune_farm.tuner.measure.runner import REAL_CHILD, ChildRunner, RunOptions
from tune_farm.tuner.measure.watch import SentinelWatch

ClientBuilder: TypeAlias = BuildPool | SimulatedBuilder
_SIMULATED_CHILD = "tune_farm.client.sim.child"
_CUDA_CHILD = "tune_farm.tuner.measure.cuda_child"


def make_builder(
    slot: Slot,
    *,
    simulated: SimulatedGpu | None,
    scratch: Path,
    options: BuildOptions,
    should_stop: Callable[[], bool],
) -> ClientBuilder:
    """Start what builds candidates; whoever calls this has to close it."""
    if simulated is None:
        return BuildPool(
            cores=slot.build_cores,
            scratch=scratch,
            options=options,
            name=slot.name,
            should_stop=should_stop,
        )
    behavior = simulated.behavior
    truth = Truth(
        simulated.machine_of(slot.share),
        surprise=behavior.surprise,
        launch_seconds=behavior.launch_seconds,
    )
    return SimulatedBuilder(
        truth, fault_rate=behavior.fault_rate, scratch=scratch, should_stop=should_stop
    )


def make_guard(slot: Slot, lane: Path | None) -> Guard:
    """What stands at both ends of the slot's children.

    Args:
        slot: where.
        lane: folder of all clients of a GPU; None: of a CPU.
    """
    if lane is None:
        return NoGuard()
    own = Lane(lane, slot.name)
    return LaneGuard(own) if slot.seat is None else SeatGuard(own, slot.seat)


def make_runner(
    slot: Slot,
    *,
    simulated: SimulatedGpu | None,
    guard: Guard,
    scratch: Path,
    options: RunOptions,
) -> ChildRunner:
    """Start the measuring child; whoever calls this has to close it.

    Args:
        slot: where.
        simulated: what the device is, if it does not exist.
        guard: of the slot's children.
        scratch: for what the child writes.
        options: limits.

    Raises:
        EnvironmentUnusableError: the slot's share is not in force.
    """
    role = REAL_CHILD
    environment: dict[str, str] = {}
    if simulated is not None:
        role, environment = _SIMULATED_CHILD, {BEHAVIOR: json.dumps(asdict(simulated.behavior))}
    elif slot.seat is not None:
        role = child.PATH
        environment = {**dict(slot.seat.environment), child.ROLE: _CUDA_CHILD}
    return ChildRunner(
        cores=slot.measure_cores,
        scratch=scratch,
        options=options,
        name=slot.name,
        role=role,
        environment=environment,
        guard=guard,
    )


def make_watch(slot: Slot, builder: ClientBuilder, runner: ChildRunner) -> SentinelWatch | None:
    """What sees others on the device: of GPUs; nobody looks on a CPU."""
    if slot.gpu is None:
        return None
    return SentinelWatch(builder, runner, processors=slot.share.granted)
