"""Drafts that TVM accepts and compiles wrongly: a later stage inside of a tile that has gaps.

Where outputs lie along one dimension by two axes (panels of 16: 16 · outer + inner), a tile may
take some of each panel. A later stage is moved to such a tile with the whole range from its first
to its last output, and so reads outputs that are not computed yet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.space.anatomy import Access
from tune_farm.tuner.space.nest import Nest
from tune_farm.tuner.space.sketch import Genes


def is_torn(nest: Nest, genes: Genes) -> NDArray[np.bool_]:
    """Whether a later stage sees a tile with gaps, (drafts,) bool."""
    torn = np.zeros(len(genes), dtype=bool)
    write = nest.block.write
    if all(len(terms) < 2 for terms in write.terms):
        return torn
    inputs = {read.buffer for read in nest.block.reads}
    covered = nest.covered(genes)
    for stage in nest.stages:
        if stage.block not in inputs and stage.depth is not None:
            torn |= _has_gaps(write, covered[stage.depth])
    return torn


def _has_gaps(write: Access, covered: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the outputs of a tile are no single range along some dimension."""
    gaps = np.zeros(len(covered), dtype=bool)
    for terms in write.terms:
        run = np.ones(len(covered), dtype=np.int64)
        for axis, step in sorted(terms, key=lambda term: term[1]):
            several = covered[:, axis] > 1
            gaps |= several & (run < step)
            run = np.where(several, step * covered[:, axis], run)
    return gaps
