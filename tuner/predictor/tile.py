"""The tile predictor: a law of waves and tiles, times what measurements taught."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.laws import laws_of
from tune_farm.tuner.predictor.machine import Cpu, Gpu
from tune_farm.tuner.predictor.residual import Residual
from tune_farm.tuner.space.design import Plot
from tune_farm.tuner.space.sketch import Genes


class TilePredictor:
    """Predicts drafts of any task on one share; one a client, so that tasks teach each other."""

    def __init__(self, machine: Cpu | Gpu, *, threads: int) -> None:
        self._laws = laws_of(machine)
        self._residual = Residual(threads=threads)

    def seconds(self, task_id: str, plot: Plot, genes: Genes) -> NDArray[np.float64] | None:
        """Predict drafts of one sketch, (drafts,) float64; None where no law covers it."""
        looked = self._laws.look(plot, genes)
        if looked is None:
            return None
        law, features = looked
        return law * self._residual.factor(task_id, features)

    def fits(self, plot: Plot, genes: Genes) -> NDArray[np.bool_]:
        """Whether drafts keep to the limits of the machine and of a sane build, (drafts,) bool."""
        return self._laws.fits(plot, genes)

    def learn(self, task_id: str, plot: Plot, genes: Genes, measured_seconds: float) -> None:
        """Take in the time of one draft, (1, decisions) int64."""
        looked = self._laws.look(plot, genes)
        if looked is not None:
            law, features = looked
            self._residual.add(task_id, features[0], float(law[0]), measured_seconds)
