"""What a client builds and measures with, by its device."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

from tune_farm.client.share.slot import Slot
from tune_farm.client.sim.builder import SimulatedBuilder
from tune_farm.client.sim.child import BEHAVIOR
from tune_farm.client.sim.gpus import SimulatedGpu
from tune_farm.client.sim.truth import Truth
from tune_farm.tuner.build.pool import BuildOptions, BuildPool
from tune_farm.tuner.measure.runner import REAL_CHILD, ChildRunner, RunOptions

ClientBuilder: TypeAlias = BuildPool | SimulatedBuilder
_SIMULATED_CHILD = "tune_farm.client.sim.child"


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


def make_runner(
    slot: Slot, *, simulated: SimulatedGpu | None, scratch: Path, options: RunOptions
) -> ChildRunner:
    """Start the measuring child; whoever calls this has to close it."""
    role, environment = REAL_CHILD, {}
    if simulated is not None:
        role, environment = _SIMULATED_CHILD, {BEHAVIOR: json.dumps(asdict(simulated.behavior))}
    return ChildRunner(
        cores=slot.measure_cores,
        scratch=scratch,
        options=options,
        name=slot.name,
        role=role,
        environment=environment,
    )
