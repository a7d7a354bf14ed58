"""The measuring child of a simulated GPU: a process like the real one, with made-up kernels.

It computes nothing, so there is no output to compare. What it answers is a law's time with noise,
slowed down while a made-up co-tenant runs.
"""

from __future__ import annotations

import json
import os
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from tune_farm.tuner.measure.messages import ChildReady, MeasureDone, MeasureJob
from tune_farm.tuner.types import Failed, Fault, Measured, Outcome

#: Of the environment: JSON of noise, busy and slowdown.
BEHAVIOR = "TUNE_FARM_SIMULATED"
#: How long a co-tenant stays when it comes.
_PERIOD_SECONDS = 0.5


def serve(connection: Connection[Any, Any]) -> None:
    """Answer measure jobs until the channel closes."""
    kernels = Kernels(json.loads(os.environ[BEHAVIOR]), np.random.default_rng(os.getpid()))
    connection.send(ChildReady(cores=tuple(sorted(os.sched_getaffinity(0)))))
    while True:
        job: MeasureJob = connection.recv()
        started = time.monotonic()
        outcome = kernels.run(job)
        if job.makes_reference and not isinstance(outcome, Failed):
            Path(job.reference).write_bytes(b"")  # there is one, and it says nothing
        connection.send(
            MeasureDone(
                outcome=outcome,
                cores_used=(),
                check_seconds=0.0,
                measure_seconds=time.monotonic() - started,
                is_broken=isinstance(outcome, Failed),  # a fault takes the context with it
            )
        )


class Kernels:
    """What runs on the simulated GPU."""

    def __init__(self, behavior: dict[str, float], rng: np.random.Generator) -> None:
        self._behavior = behavior
        self._rng = rng

    def run(self, job: MeasureJob) -> Outcome | None:
        """Time one artifact; nothing is waited for but the time that its repeats would take."""
        told = json.loads(Path(job.library).read_text())
        if told["faults"]:
            return Failed(fault=Fault.ILLEGAL_ACCESS, detail="a simulated illegal address")
        if job.timing is None:
            return None
        seconds = float(told["seconds"])
        best, timing = job.incumbent_seconds, job.timing
        repeats = [self._repeat(seconds, timing.repeat_seconds)]
        late = best is not None and repeats[0] > timing.stop_ratio * best and timing.repeats > 1
        if not late:
            rest = timing.repeats - 1
            repeats += [self._repeat(seconds, timing.repeat_seconds) for _ in range(rest)]
        return Measured(repeats_seconds=tuple(repeats), stopped_early=late)

    def _repeat(self, seconds: float, repeat_seconds: float) -> float:
        """The mean of the calls of one repeat."""
        behavior = self._behavior
        calls = max(1, round(repeat_seconds / seconds))
        noise = 1 + behavior["noise"] * float(self._rng.standard_normal())
        time.sleep(min(repeat_seconds, calls * seconds))
        busy = self._is_busy(time.time())
        return max(1e-9, seconds * noise * (behavior["slowdown"] if busy else 1.0))

    def _is_busy(self, now: float) -> bool:
        """Whether the co-tenant runs: for all clients of the GPU in the same periods."""
        period = np.random.default_rng(int(now / _PERIOD_SECONDS))
        return bool(period.random() < self._behavior["busy"])
