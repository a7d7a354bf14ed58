"""A draft's decisions as numbers that something can be learned from: sizes as powers of two."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.space.decisions import Choice, Decision, Location, Tiling
from tune_farm.tuner.space.sketch import Genes, Sketch

Floats = NDArray[np.float64]


def on_scales(sketch: Sketch, genes: Genes) -> Floats:
    """Decisions of drafts, (drafts, columns): one a factor of a tile, one of any other decision."""
    columns = [
        _on_scale(decision, genes[:, place])
        for place, decision in enumerate(sketch.decisions)
        if decision.size > 1
    ]
    return np.concatenate([np.zeros((len(genes), 0)), *columns], axis=1)


def _on_scale(decision: Decision, genes: NDArray[np.int64]) -> Floats:
    if isinstance(decision, Tiling):
        return np.asarray(np.log2(decision.table[genes]))
    if isinstance(decision, Choice):
        options = np.maximum(np.array(decision.options), 0.0)
        return np.asarray(np.log2(1.0 + options)[genes][:, None])
    assert isinstance(decision, Location), decision
    return np.array(decision.locations, dtype=np.float64)[genes][:, None]
