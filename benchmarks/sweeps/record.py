"""Records a sweep on one core of this machine: the product's own limits, builds and timings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.sweeps.sweep import Sweep, digest, padded
from tune_farm.client.devices.cpu_core import cpu_core
from tune_farm.tuner.build.pool import BuildOptions, BuildPool
from tune_farm.tuner.interfaces import Artifact
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.measure.messages import Timing
from tune_farm.tuner.measure.runner import ChildRunner, RunOptions
from tune_farm.tuner.predictor.tile import TilePredictor
from tune_farm.tuner.space.design import DesignSpace
from tune_farm.tuner.space.sketch import Genes
from tune_farm.tuner.types import Candidate, Measured, Task

#: The part of the drafts that is measured again, and how often.
_FINAL_PART, _ROUNDS = 0.1, 10
_ONCE = Timing(repeats=3, repeat_seconds=0.01, stop_ratio=2.0)
_AGAIN = Timing(repeats=3, repeat_seconds=0.01, stop_ratio=float("inf"))
_BATCH = 64
_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One draft that TVM accepted."""

    plot: int
    genes: Genes  # (decisions,)
    candidate: Candidate


class Recorder:
    """Builds on all cores and measures on the last of them, in turn. Close it when done."""

    def __init__(self, cores: tuple[int, ...], folder: Path, machine: str) -> None:
        self._machine = machine
        self._pool = BuildPool(
            cores=cores,
            scratch=folder,
            options=BuildOptions(timeout_seconds=60.0),
            name="sweep",
            should_stop=lambda: False,
        )
        self._runner = ChildRunner(
            cores=cores[-1:], scratch=folder, options=RunOptions(timing=_ONCE), name="sweep"
        )

    def close(self) -> None:
        """End all processes."""
        self._pool.close()
        self._runner.close()

    def record(self, task: Task, count: int) -> Sweep:
        """Sweep one operator.

        Raises:
            SystemExit: its baseline can't be measured, or it has too few schedules.
        """
        space = DesignSpace(task, seed=_SEED)
        baseline = self._start(task)
        rows: list[Drawn] = []
        seconds: list[float] = []
        kept: dict[int, Artifact] = {}
        for batch in _batches(draw(task, space), count):
            for drawn, artifact, measured in self._measured(
                batch, baseline, min(seconds, default=None)
            ):
                if artifact is not None:
                    kept[len(rows)] = artifact
                rows.append(drawn)
                seconds.append(measured)
            self._drop(kept, seconds, count)
            print(f"\r{task.name}: {len(rows)} of {count}", end="", file=sys.stderr, flush=True)
        print(f"\n{task.name}: the best are measured again …", file=sys.stderr, flush=True)
        finalists = sorted(kept)
        final = self._again([kept[row] for row in finalists])
        for artifact in kept.values():
            artifact.path.unlink()
        print(f"{task.name}: done", file=sys.stderr, flush=True)
        return Sweep(
            task=task,
            machine=self._machine,
            cpu=cpu_core(1),
            seed=_SEED,
            sketches=tuple(digest(plot.sketch) for plot in space.plots),
            plots=np.array([drawn.plot for drawn in rows]),
            genes=padded([drawn.genes for drawn in rows]),
            seconds=np.array(seconds),
            finalists=np.array(finalists),
            final_seconds=final,
        )

    def _start(self, task: Task) -> float:
        """Measure the baseline, whose output all others are compared with."""
        self._pool.select(task)
        self._runner.select(task, None)
        self._runner.timing = _ONCE
        (built,) = self._pool.build([untuned(task)])
        if not isinstance(built, Artifact):
            raise SystemExit(f"{task.name}: the baseline: {built.failure.detail}")
        outcome = self._runner.run(built, incumbent_seconds=None).outcome
        built.path.unlink()
        if not isinstance(outcome, Measured):
            raise SystemExit(f"{task.name}: the baseline: {outcome.detail}")
        self._runner.select(task, outcome.median_seconds)
        return outcome.median_seconds

    def _measured(
        self, batch: list[Drawn], baseline: float, best: float | None
    ) -> Iterator[tuple[Drawn, Artifact | None, float]]:
        by_id = {drawn.candidate.id: drawn for drawn in batch}
        incumbent = min(best or baseline, baseline)
        for built in list(self._pool.build([drawn.candidate for drawn in batch])):
            drawn = by_id[built.candidate.id]
            if not isinstance(built, Artifact):
                yield drawn, None, float("inf")
                continue
            outcome = self._runner.run(built, incumbent_seconds=incumbent).outcome
            if isinstance(outcome, Measured):
                yield drawn, built, outcome.median_seconds
            else:
                built.path.unlink()
                yield drawn, None, float("inf")

    def _drop(self, kept: dict[int, Artifact], seconds: list[float], count: int) -> None:
        """Keep the libraries of those that can still be finalists."""
        finalists = round(_FINAL_PART * count)
        for row in sorted(kept, key=lambda row: seconds[row])[finalists:]:
            kept.pop(row).path.unlink()

    def _again(self, artifacts: list[Artifact]) -> np.ndarray:
        """Seconds of each in every round, (artifacts, rounds); rounds differ in their order."""
        self._runner.timing = _AGAIN
        found = np.empty((len(artifacts), _ROUNDS))
        rng = np.random.default_rng(_SEED)
        for turn in range(_ROUNDS):
            for place in rng.permutation(len(artifacts)):
                outcome = self._runner.run(artifacts[place], incumbent_seconds=None).outcome
                if not isinstance(outcome, Measured):
                    raise SystemExit(f"a finalist failed when measured again: {outcome.detail}")
                found[place, turn] = outcome.median_seconds
        return found


def draw(task: Task, space: DesignSpace) -> Iterator[Drawn]:
    """Distinct schedules that keep to the limits, every sketch's in turn, without end."""
    predictor = TilePredictor(cpu_core(1), threads=1)
    rng = np.random.default_rng(_SEED)
    seen: set[str] = set()
    while True:
        for index, plot in enumerate(space.plots):
            genes = plot.sketch.draw(4096, rng)
            genes = genes[predictor.fits(plot, genes)][:64]
            for row in genes:
                candidate = space.realize(index, row)
                if candidate is not None and candidate.id not in seen:
                    seen.add(candidate.id)
                    yield Drawn(plot=index, genes=row, candidate=candidate)


def _batches(drawn: Iterator[Drawn], count: int) -> Iterator[list[Drawn]]:
    for start in range(0, count, _BATCH):
        yield [next(drawn) for _ in range(min(_BATCH, count - start))]
