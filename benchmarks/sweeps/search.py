"""Searches of a sweep: ours as the product searches, a roofline, and trees on random picks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from benchmarks.replay.rivals import learned_seconds
from benchmarks.sweeps.sweep import Ints, Sweep
from tune_farm.tuner.predictor.cpu_tiles import CpuTiles, cpu_tiles
from tune_farm.tuner.predictor.machine import Cpu
from tune_farm.tuner.predictor.tile import TilePredictor
from tune_farm.tuner.space.scales import on_scales
from tune_farm.tuner.strategy.draft import DraftOptions
from tune_farm.tuner.strategy.selection import next_trials, split

Floats = NDArray[np.float64]

#: A client's first order of a task, and those that follow.
_FIRST, _BATCH = 6, 16


class Ours:
    """The product's predictor and policy on one sweep."""

    def __init__(self, sweep: Sweep, options: DraftOptions) -> None:
        self._sweep = sweep
        self._policy = options.policy
        self._predictor = TilePredictor(sweep.cpu, threads=1, corrects=options.corrects)
        space = sweep.open_space()
        self._parts = [
            (plot, *sweep.genes_of(index, plot.sketch)) for index, plot in enumerate(space.plots)
        ]
        self.measured: dict[int, float] = {}  #: seconds by row; infinite where it failed

    def search(self, count: int, seed: int) -> None:
        """Measure `count` drafts, batch by batch."""
        rng = np.random.default_rng(seed)
        while len(self.measured) < count:
            seconds, _, doubt = self.predict()
            seconds[list(self.measured)] = np.inf
            size = min(_BATCH if self.measured else _FIRST, count - len(self.measured))
            for row in next_trials(seconds, doubt, size, policy=self._policy, rng=rng).tolist():
                self._measure(row)

    def kept(self) -> Ints:
        """Rows that the product keeps now; measured ones count by what they took."""
        seconds, law, doubt = self.predict()
        seconds *= np.exp2(-self._policy.caution * doubt)
        rows = list(self.measured)
        seconds[rows] = [self.measured[row] for row in rows]
        count = self._policy.kept(len(seconds))
        return split(seconds, count, law=law, hedge=self._policy.hedge)[0]

    def predict(self) -> tuple[Floats, Floats, Floats]:
        """Seconds, seconds of the law alone, and doubt of all drafts: (drafts,) each."""
        seconds, law, doubt = (np.full(len(self._sweep.seconds), np.nan) for _ in range(3))
        for plot, rows, genes in self._parts:
            found = self._predictor.predict(self._sweep.task.id, plot, genes)
            assert found is not None, f"{self._sweep.task.name}: no law covers a sketch"
            seconds[rows], law[rows], doubt[rows] = found.seconds, found.law, found.doubt
        return seconds, law, doubt

    def _measure(self, row: int) -> None:
        self.measured[row] = seconds = float(self._sweep.seconds[row])
        if math.isfinite(seconds):
            for plot, rows, genes in self._parts:
                at = np.flatnonzero(rows == row)
                if len(at):
                    self._predictor.learn(self._sweep.task.id, plot, genes[at], seconds)


def roofline_seconds(sweep: Sweep) -> Floats:
    """What a roofline expects of each draft, (drafts,): nothing in it was tuned or learned."""
    found = np.empty(len(sweep.seconds))
    for index, plot in enumerate(sweep.open_space().plots):
        rows, genes = sweep.genes_of(index, plot.sketch)
        assert plot.nest is not None, f"{sweep.task.name}: no law covers a sketch"
        found[rows] = roofline(cpu_tiles(plot.nest, genes, sweep.cpu), sweep.cpu)
    return found


def roofline(tiles: CpuTiles, cpu: Cpu) -> Floats:
    """Waves of tiles, each at the peak of its vectors or of the slowest cache."""
    body = tiles.body
    compute = body.executions * body.multiply_adds / cpu.fused_multiply_adds
    refills = (
        size / speed
        for size, speed in zip(tiles.refill_bytes, cpu.refill_bytes_per_cycle, strict=True)
    )
    cycles = np.maximum.reduce([compute, *refills])
    waves = np.ceil(tiles.jobs / cpu.cores) / (tiles.jobs / cpu.cores)
    return np.asarray(cycles * waves / (cpu.cores * cpu.clock_hertz))


def trees_seconds(sweep: Sweep, count: int, seed: int) -> Floats:
    """What trees expect that learned from `count` random drafts; those as measured, (drafts,)."""
    picked = np.random.default_rng(seed).permutation(len(sweep.seconds))[:count]
    measured = {int(row): float(sweep.seconds[row]) for row in picked}
    expected = learned_seconds(_decisions(sweep), measured)
    expected[picked] = sweep.seconds[picked]
    return expected


def _decisions(sweep: Sweep) -> Floats:
    """Decisions of all sketches side by side, (drafts, …); of a draft, one sketch's are known."""
    blocks = [np.where(sweep.plots[:, None] == np.arange(len(sweep.sketches)), 1.0, 0.0)]
    for index, plot in enumerate(sweep.open_space().plots):
        rows, genes = sweep.genes_of(index, plot.sketch)
        scaled = on_scales(plot.sketch, genes)
        block = np.full((len(sweep.plots), scaled.shape[1]), np.nan)
        block[rows] = scaled
        blocks.append(block)
    return np.concatenate(blocks, axis=1)
