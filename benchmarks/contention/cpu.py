"""Schedules of one operator on a core of this machine, which a neighbor loads, too."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.operators import Selection, model_tasks
from benchmarks.report import ROOT
from benchmarks.sweeps.record import draw
from tune_farm.client.devices.cpu import system_mcpu, usable_cores
from tune_farm.tuner.build.pool import BuildOptions, BuildPool
from tune_farm.tuner.interfaces import Artifact
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.measure.messages import Timing
from tune_farm.tuner.measure.runner import ChildRunner, RunOptions
from tune_farm.tuner.space.design import DesignSpace
from tune_farm.tuner.types import Measured, Task

#: A dense layer of BERT.
OPERATOR = Selection(model="bert-base", tasks=(6,))
_ONE_SAMPLE = Timing(repeats=1, repeat_seconds=0.01, stop_ratio=float("inf"))
_DRAWN, _SEED = 96, 0
#: Rounds in which the truth is measured, without the neighbor.
_TRUTH_ROUNDS = 15


class Kernels:
    """Schedules that were built here, ready to be timed on the last core. Close it when done."""

    def __init__(self, finalists: int, folder: Path) -> None:
        cores = usable_cores()
        self._core = cores[-1]
        architecture = system_mcpu()
        target = {"kind": "llvm", "mcpu": architecture, "num-cores": 1}
        (task,) = model_tasks([OPERATOR], json.dumps(target), packed=True)
        self._pool = BuildPool(
            cores=cores,
            scratch=folder,
            options=BuildOptions(timeout_seconds=60.0),
            name="contention",
            should_stop=lambda: False,
        )
        self._runner = ChildRunner(
            cores=(self._core,),
            scratch=folder,
            options=RunOptions(timing=_ONE_SAMPLE, timeout_seconds=30.0),
            name="contention",
        )
        self._artifacts = self._fastest(task, finalists)

    def close(self) -> None:
        """End all processes."""
        self._pool.close()
        self._runner.close()

    def __len__(self) -> int:
        return len(self._artifacts)

    def time(self, kernel: int) -> float:
        """Measure one schedule once."""
        outcome = self._runner.run(self._artifacts[kernel], incumbent_seconds=None).outcome
        if not isinstance(outcome, Measured):
            raise SystemExit(f"a schedule failed when measured again: {outcome.detail}")
        return outcome.median_seconds

    def truth(self) -> NDArray[np.float64]:
        """Seconds of each schedule on the quiet core, (kernels,): medians of interleaved rounds."""
        rounds = [[self.time(kernel) for kernel in range(len(self))] for _ in range(_TRUTH_ROUNDS)]
        return np.asarray(np.median(np.array(rounds), axis=0), dtype=np.float64)

    @contextmanager
    def neighbor(self, part: float, seed: int) -> Iterator[None]:
        """Somebody else at work on the core that is timed, for a part of the time."""
        command = [sys.executable, "-m", "benchmarks.contention.neighbor"]
        process = subprocess.Popen([*command, str(self._core), str(part), str(seed)], cwd=ROOT)
        try:
            time.sleep(1.0)  # it imports
            yield
        finally:
            process.kill()
            process.wait()

    def _fastest(self, task: Task, count: int) -> list[Artifact]:
        """The best of some random schedules, by three samples each."""
        self._pool.select(task)
        self._runner.select(task, None)
        (base,) = self._pool.build([untuned(task)])
        assert isinstance(base, Artifact)
        self._runner.run(base, incumbent_seconds=None)
        drawn = draw(task, DesignSpace(task, seed=_SEED))
        candidates = [next(drawn).candidate for _ in range(_DRAWN)]
        timed: list[tuple[float, Artifact]] = []
        for item in list(self._pool.build(candidates)):
            if not isinstance(item, Artifact):
                continue
            outcomes = [self._runner.run(item, incumbent_seconds=None).outcome for _ in range(3)]
            seconds = [each.median_seconds for each in outcomes if isinstance(each, Measured)]
            if len(seconds) == len(outcomes):
                timed.append((statistics.median(seconds), item))
        timed.sort(key=lambda pair: pair[0])
        return [item for _, item in timed[:count]]


@contextmanager
def kernels(finalists: int) -> Iterator[Kernels]:
    """Build and pick the finalists; all is ended and removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        found = Kernels(finalists, Path(folder))
        try:
            yield found
        finally:
            found.close()
