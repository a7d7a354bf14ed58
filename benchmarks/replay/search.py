"""Searches of a recorded space: each names configurations, each is charged what was recorded.

Ours is the product's: its law, its residual, its choice of what is kept and measured.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.replay.spaces import Space
from tune_farm.tuner.predictor.correction import Correction
from tune_farm.tuner.predictor.gpu_law import gpu_seconds
from tune_farm.tuner.strategy.selection import Policy, next_trials, split

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BATCH = 8
_POLICY = Policy()


class BudgetSpentError(Exception):
    """The search may measure no more."""


@dataclass(slots=True)
class Meter:
    """Hands out recorded times and keeps the bill; a configuration is charged once."""

    space: Space
    limit: int  # configurations
    until: NDArray[np.bool_] | None = None  # (configurations,) at any of which it ends
    measured: dict[int, float] = field(default_factory=dict)  #: seconds, in order of measuring
    charged_seconds: float = 0.0
    is_hit: bool = False

    def measure(self, row: int) -> float:
        """The recorded seconds of a configuration; infinite if it failed."""
        if row in self.measured:
            return self.measured[row]
        if self.is_hit or len(self.measured) >= self.limit:
            raise BudgetSpentError
        self.measured[row] = float(self.space.seconds[row])
        self.charged_seconds += float(self.space.cost_seconds[row])
        self.is_hit = self.until is not None and bool(self.until[row])
        return self.measured[row]


Search: TypeAlias = Callable[[Meter, np.random.Generator], None]


def run_search(search: Search, meter: Meter, seed: int) -> Meter:
    """Run a search until the meter stops it."""
    with contextlib.suppress(BudgetSpentError):
        search(meter, np.random.default_rng(seed))
    return meter


class Predictor:
    """The product's prediction of one recorded space."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self.law = gpu_seconds(space.tiles, space.gpu)  #: (configurations,)
        self._decisions = space.decisions
        self._correction = Correction(self._decisions, threads=1)

    def learn(self, row: int, seconds: float) -> None:
        """Take in one measurement; one that failed teaches no time."""
        if math.isfinite(seconds) and math.isfinite(self.law[row]):
            self._correction.add(self._decisions[row], float(self.law[row]), seconds)

    def seconds(self) -> Floats:
        """What it expects of all configurations, (configurations,)."""
        return self.law * self._correction.factor(self._decisions)

    def doubt(self) -> Floats:
        """How sure it is of that: standard deviation of log2, (configurations,)."""
        return self._correction.doubt(self._decisions)


def search_ours(predictor: Predictor) -> Search:
    """The product's search: half of each batch the most promising, half drawn."""

    def search(meter: Meter, rng: np.random.Generator) -> None:
        while len(meter.measured) < len(predictor.law):
            seconds = predictor.seconds()
            seconds[list(meter.measured)] = np.inf
            rows = next_trials(seconds, predictor.doubt(), BATCH, policy=_POLICY, rng=rng)
            if not len(rows):
                return  # what is left cannot be launched
            for row in rows.tolist():
                predictor.learn(row, meter.measure(row))

    return search


def kept_of(predictor: Predictor, meter: Meter) -> Ints:
    """The part that the product keeps after what was measured, measured ones counted in."""
    seconds = predictor.seconds() * np.exp2(-_POLICY.caution * predictor.doubt())
    rows = list(meter.measured)
    seconds[rows] = [meter.measured[row] for row in rows]
    count = _POLICY.kept(len(seconds))
    return split(seconds, count, law=predictor.law, hedge=_POLICY.hedge)[0]


def best_part(seconds: Floats) -> Ints:
    """The part that is kept where only predictions count."""
    return split(seconds, _POLICY.kept(len(seconds)))[0]
