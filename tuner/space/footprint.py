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
    for size, terms in zip(access.shape, access.terms, strict=True):
        span = np.ones(len(covered), dtype=np.int64)
        for axis, step in terms:
            span += step * (covered[:, axis] - 1)
        total *= np.minimum(span, size)
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
    for size, terms in reversed(list(zip(access.shape, access.terms, strict=True))):
        span = np.ones(len(covered), dtype=np.int64)
        for axis, step in terms:
            span += step * (covered[:, axis] - 1)
        span = np.minimum(span, size)
        run = np.where(whole, run * span, run)
        rest = np.where(whole, rest, rest * span)
        whole &= span == size
    return np.asarray(rest * np.ceil(run / line) * line)


def crowding(
    access: Access, covered: NDArray[np.int64], sets: int, line: int = 64
) -> NDArray[np.float64]:
    """How unevenly the lines of a buffer fall on a cache's sets.

    Rows whose distance is a multiple of many lines share few sets: with 512 float channels last,
    neighbouring pixels are 32 lines apart and take 2 of 64 sets.

    Args:
        access: the affine map.
        covered: (drafts, axes) int64.
        sets: of the cache.
        line: bytes.

    Returns:
        (drafts,) float64: sets over those that the lines can fall on, at least 1.
    """
    run = np.full(len(covered), float(access.element_bytes))
    whole = np.ones(len(covered), dtype=bool)
    step = np.full(len(covered), sets, dtype=np.int64)  # greatest common distance of rows, lines
    stride = access.element_bytes
    for size, terms in reversed(list(zip(access.shape, access.terms, strict=True))):
        span = np.ones(len(covered), dtype=np.int64)
        for axis, coefficient in terms:
            span += coefficient * (covered[:, axis] - 1)
        span = np.minimum(span, size)
        apart = stride // line if stride % line == 0 else 1
        step = np.where(~whole & (span > 1), np.gcd(step, apart), step)
        run = np.where(whole, run * span, run)
        whole &= span == size
        stride *= size
    lines = np.minimum(np.ceil(run / line), step)
    return np.asarray(step / lines)
