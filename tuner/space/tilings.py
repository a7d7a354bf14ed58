"""All ways to write a loop's extent as an ordered product: the domain of one tile decision."""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray


@functools.lru_cache(maxsize=1024)
def tilings(extent: int, parts: int, most_innermost: int) -> NDArray[np.int64]:
    """Return every ordered factorization of a loop, as `SamplePerfectTile` would draw it.

    Args:
        extent: of the loop, at least 1.
        parts: factors of each, at least 1.
        most_innermost: the last factor's bound (TVM's `max_innermost_factor`).

    Returns:
        int64 of shape (tilings, parts), read-only, in lexicographic order; each row's product is
        `extent`. Never empty: the last factor may be 1 when there are two parts or more.
    """
    assert extent >= 1, extent
    assert parts >= 1, parts
    # One part leaves nothing to choose; TVM does not bound it either.
    rows = [(extent,)] if parts == 1 else _rows(extent, parts, most_innermost)
    table = np.array(rows, dtype=np.int64).reshape(len(rows), parts)
    table.setflags(write=False)
    return table


def _rows(extent: int, parts: int, most_innermost: int) -> list[tuple[int, ...]]:
    if parts == 1:
        return [(extent,)] if extent <= most_innermost else []
    return [
        (factor, *rest)
        for factor in divisors(extent)
        for rest in _rows(extent // factor, parts - 1, most_innermost)
    ]


@functools.lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """The divisors of a positive number, ascending."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))
