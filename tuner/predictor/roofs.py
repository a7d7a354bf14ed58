"""Roofs, rounds, what hides latency: for the law of drafts and the forecasts of kernels alike."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def overlapped(exponent: float, *times: Floats) -> Floats:
    """Times that overlap in part: their norm of an exponent, 1 = not at all, infinity = wholly.

    Scaled by the longest, so that none underflows.
    """
    longest = np.maximum(functools.reduce(np.maximum, times), 1e-300)
    total = sum((each / longest) ** exponent for each in times)
    return np.asarray(longest * total ** (1 / exponent))


def rounds(items: Floats, places: Floats | float) -> Floats:
    """Items that the busiest of so many places gets: the last round may be part empty."""
    return np.asarray(np.ceil(items / places))


def half_used(in_flight: Floats, half: float) -> Floats:
    """The part of its peak that a unit reaches with so much in flight; half of it with `half`.

    What is in flight hides latency (Little's law; Volkov, "Better performance at lower occupancy").
    """
    return np.asarray(in_flight / (in_flight + half))


def moved_once(asked: Floats, together: Floats, unique: Floats) -> Floats:
    """Bytes that DRAM moves for blocks that ask for some bytes in common.

    Blocks that run together cover about a square of the output, so that each of its inputs is
    asked for by a row or a column of them.

    Args:
        asked: bytes, by all blocks.
        together: blocks that run at a time.
        unique: bytes, each once: the least.
    """
    return np.maximum(asked / np.sqrt(together), unique)
