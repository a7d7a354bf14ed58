"""GPU times that others recorded, on a device that a made-up co-tenant uses, too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Samples for which the co-tenant stays, or stays away, at a time, on average.
_SPELL = 12
_SLOWDOWN = (1.25, 2.0)  # of a kernel while it is there: each kernel has its own


class SharedDevice:
    """Answers with a recorded time, noise, and what the co-tenant does to it."""

    def __init__(self, seconds: Floats, *, busy: float, noise: float, seed: int) -> None:
        """Take the kernels.

        Args:
            seconds: recorded times, (kernels,).
            busy: part of the time in which the co-tenant is there.
            noise: standard deviation of a sample, relative.
            seed: of noise, slowdowns and the co-tenant's spells.
        """
        self._seconds, self._busy, self._noise = seconds, busy, noise
        self._rng = np.random.default_rng(seed)
        self._slowdowns = self._rng.uniform(*_SLOWDOWN, size=len(seconds))
        self._is_there = bool(self._rng.random() < busy)
        self.samples = 0  #: taken so far

    def time(self, kernel: int) -> float:
        """Measure one kernel once."""
        self.samples += 1
        if self._rng.random() < 1 / _SPELL:
            self._is_there = bool(self._rng.random() < self._busy)
        slowdown = self._slowdowns[kernel] if self._is_there else 1.0
        noise = 1 + self._noise * self._rng.standard_normal()
        return float(self._seconds[kernel] * slowdown * max(0.1, noise))
