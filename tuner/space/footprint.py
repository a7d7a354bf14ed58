"""What a block touches of a buffer inside of its inner loops, for many drafts at once."""

from __future__ import annotations

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


def line_bytes(access: Access, covered: NDArray[np.int64], line: int = 64) -> NDArray[np.float64]:
    """Bytes of the cache lines that `elements` of a buffer lie in.

    Elements that are adjacent in memory share lines: those along the last dimension, and along the
    ones before it for as long as each is run through whole.

    Returns:
        (drafts,) float64.
    """
    run = np.full(len(covered), float(access.element_bytes))
    rest = np.ones(len(covered))
    whole = np.ones(len(covered), dtype=bool)
    for size, span in reversed(list(zip(access.shape, access.spans(covered), strict=True))):
        run = np.where(whole, run * span, run)
        rest = np.where(whole, rest, rest * span)
        whole &= span == size
    return np.asarray(rest * np.ceil(run / line) * line)
