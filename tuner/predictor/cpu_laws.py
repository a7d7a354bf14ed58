"""Limits and law of CPU cores, for `TilePredictor`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.cpu_law import cpu_seconds
from tune_farm.tuner.predictor.cpu_tiles import cpu_tiles
from tune_farm.tuner.predictor.features import cpu_features
from tune_farm.tuner.predictor.loop_body import loop_body
from tune_farm.tuner.predictor.machine import Cpu
from tune_farm.tuner.space.design import Plot
from tune_farm.tuner.space.sketch import Genes
from tune_farm.tuner.space.torn import is_torn

#: Vector instructions of one loop body: beyond it a build takes seconds, and the code leaves the
#: cache of decoded instructions, so that nothing is won.
_MOST_CODE = 2048
#: Statements up to which blocks may be unrolled. At TVM's largest choice, 512, the builds of
#: ResNet-50's convolutions took four times as long as at 64, and the best was 3% faster.
_MOST_UNROLLED = 256


class CpuLaws:
    """The cores of one share; implements `laws.Laws`."""

    def __init__(self, cpu: Cpu) -> None:
        self._cpu = cpu

    def fits(self, plot: Plot, genes: Genes) -> NDArray[np.bool_]:
        """Whether the loop body is of a sane size, and TVM compiles it rightly, (drafts,) bool."""
        if plot.nest is None:
            return np.ones(len(genes), dtype=bool)
        body = loop_body(plot.nest, genes, self._cpu)
        sane = (body.code <= _MOST_CODE) & (body.unrolled <= _MOST_UNROLLED)
        return sane & ~is_torn(plot.nest, genes)

    def look(
        self, plot: Plot, genes: Genes
    ) -> tuple[NDArray[np.float64], NDArray[np.float32]] | None:
        """Seconds and features; None where no law covers the sketch."""
        if plot.nest is None:
            return None
        tiles = cpu_tiles(plot.nest, genes, self._cpu)
        law = cpu_seconds(tiles, self._cpu)
        return law, cpu_features(tiles, law, self._cpu)
