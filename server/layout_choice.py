"""Chooses how a model's tensors lie in memory, by what the tile predictor says of both ways."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tune_farm.tuner.predictor.machine import Cpu
from tune_farm.tuner.predictor.tile import TilePredictor
from tune_farm.tuner.space.design import DesignSpace
from tune_farm.tuner.types import Task

#: Drafts of each sketch: the best of so few is within some percent of the best of all.
_DRAFTS = 256
_SEED = 0


def packed_is_faster(given: Iterable[Task], packed: Iterable[Task], cpu: Cpu) -> bool:
    """Predict which of two forms of a model runs faster on a share, before anything is measured.

    Conversions between layouts are tasks like others, and so are charged. What both forms have in
    common is not looked at.
    """
    before = {task.id: task for task in given}
    after = {task.id: task for task in packed}
    predictor = TilePredictor(cpu, threads=1)
    return _total(after, before, cpu, predictor) < _total(before, after, cpu, predictor)


def _total(
    tasks: dict[str, Task], others: dict[str, Task], cpu: Cpu, predictor: TilePredictor
) -> float:
    """Seconds of the tasks that one form alone has."""
    own = (task for key, task in tasks.items() if key not in others)
    return sum(task.weight * _best_seconds(task, cpu, predictor) for task in own)


def _best_seconds(task: Task, cpu: Cpu, predictor: TilePredictor) -> float:
    """The fastest of a few drafts; where no law covers them, as fast as memory is."""
    rng = np.random.default_rng(_SEED)
    found = []
    if task.reduction_length > 1:
        for plot in DesignSpace(task, seed=_SEED).plots:
            genes = plot.sketch.draw(_DRAFTS, rng)
            seconds = predictor.seconds(task.id, plot, genes[predictor.fits(plot, genes)])
            found += [] if seconds is None or not len(seconds) else [float(seconds.min())]
    memory = cpu.refill_bytes_per_cycle[-1] * cpu.clock_hertz
    return min(found, default=task.bytes_moved / memory)
