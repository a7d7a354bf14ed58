"""What a block touches of a buffer inside of its inner loops, for many drafts at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.space.anatomy import Access


def elements(access: Access, covered: NDArray[np.int64]) -> NDArray[np.float64]:
    """Distinct elements of a buffer that are touched while axes are run through.

    Each dimension spans 1 + Σ |coefficient| · (covered - 1), at most its size (overlapping
    windows, such as a convolution's, are counted once).

    Args:
        access: the affine map.
        covered: (drafts, axes) int64.

    Returns:
        (drafts,) float64.
    """
    total = np.ones(len(covered))
    for span in access.spans(covered):
        total *= span
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The cache lines of a buffer that are touched while axes are run through: (drafts,) arrays."""

    count: NDArray[np.float64]
    run: NDArray[np.float64]  # of them side by side
    gap: NDArray[np.int64]  # greatest common distance of runs, in lines; 0 for a single run

    def crowding(self, sets: int) -> NDArray[np.float64]:
        """How unevenly the lines fall on a cache's sets: all sets over those they can fall on.

        Rows whose distance is a multiple of many lines share few sets: with 512 float channels
        last, neighbouring pixels are 32 lines apart and take 2 of 64 sets.
        """
        step = np.gcd(self.gap, sets)
        return np.asarray(step / np.minimum(self.run, step))


def lines_of(access: Access, covered: NDArray[np.int64], line: int = 64) -> Lines:
    """The lines that `elements` of a buffer lie in.

    Elements that are adjacent in memory share lines: those along the last dimension, and along the
    ones before it for as long as each is run through whole.

    Args:
        access: the affine map.
        covered: (drafts, axes) int64.
        line: bytes.
    """
    run = np.full(len(covered), float(access.element_bytes))
    rest = np.ones(len(covered))
    gap = np.zeros(len(covered), dtype=np.int64)
    whole = np.ones(len(covered), dtype=bool)
    stride = access.element_bytes
    for size, span in reversed(list(zip(access.shape, access.spans(covered), strict=True))):
        apart = stride // line if stride % line == 0 else 1  # rows that no line divides spread
        gap = np.where(~whole & (span > 1), np.gcd(gap, apart), gap)
        run = np.where(whole, run * span, run)
        rest = np.where(whole, rest, rest * span)
        whole &= span == size
        stride *= size
    run = np.ceil(run / line)
    return Lines(count=rest * run, run=run, gap=gap)
