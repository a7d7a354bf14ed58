"""The tile predictor: a law of waves and tiles, times what measurements taught."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.cpu_law import cpu_seconds
from tune_farm.tuner.predictor.cpu_tiles import cpu_tiles
from tune_farm.tuner.predictor.features import cpu_features
from tune_farm.tuner.predictor.loop_body import loop_body
from tune_farm.tuner.predictor.machine import Cpu
from tune_farm.tuner.predictor.residual import Residual
from tune_farm.tuner.space.design import Plot
from tune_farm.tuner.space.nest import Nest
from tune_farm.tuner.space.sketch import Genes

#: Vector instructions of one loop body: beyond it a build takes seconds, and the code leaves the
#: cache of decoded instructions, so that nothing is won.
_MOST_CODE = 2048
#: Statements up to which blocks may be unrolled. At TVM's largest choice, 512, the builds of
#: ResNet-50's convolutions took four times as long as at 64, and the best was 3% faster.
_MOST_UNROLLED = 256


class TilePredictor:
    """Predicts drafts of any task on one share; one a client, so that tasks teach each other."""

    def __init__(self, cpu: Cpu, *, threads: int) -> None:
        self._cpu = cpu
        self._residual = Residual(threads=threads)

    def seconds(self, task_id: str, plot: Plot, genes: Genes) -> NDArray[np.float64] | None:
        """Predict drafts of one sketch, (drafts,) float64; None where no law covers it."""
        if plot.nest is None:
            return None
        law, features = self._look(plot.nest, genes)
        return law * self._residual.factor(task_id, features)

    def fits(self, plot: Plot, genes: Genes) -> NDArray[np.bool_]:
        """Whether drafts keep to the limits of the machine and of a sane build, (drafts,) bool."""
        if plot.nest is None:
            return np.ones(len(genes), dtype=bool)
        body = loop_body(plot.nest, genes, self._cpu)
        return (body.code <= _MOST_CODE) & (body.unrolled <= _MOST_UNROLLED)

    def learn(self, task_id: str, plot: Plot, genes: Genes, measured_seconds: float) -> None:
        """Take in the time of one draft, (1, decisions) int64."""
        if plot.nest is None:
            return
        law, features = self._look(plot.nest, genes)
        self._residual.add(task_id, features[0], float(law[0]), measured_seconds)

    def _look(self, nest: Nest, genes: Genes) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        tiles = cpu_tiles(nest, genes, self._cpu)
        law = cpu_seconds(tiles, self._cpu)
        return law, cpu_features(tiles, law, self._cpu)
