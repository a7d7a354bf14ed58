"""Which of a few finalists is the fastest, on a device where others may be at work, too.

One of them, the incumbent, is measured before and after each sample of another: A-B-A. A sample
counts as its ratio to the incumbent's around it, so that slow drift cancels; and where the
incumbent is slower than when the device is quiet, somebody else was at work, and the sample is
thrown away and taken again. Who is behind by more than chance is dropped (a race: Maron and Moore,
"Hoeffding Races", NIPS 1994), until one is left or the rounds are over.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Key = TypeVar("Key", bound=Hashable)

#: Samples of each challenger before any is dropped.
FEWEST = 3
#: Standard errors by which a challenger has to be behind to be dropped.
_BEHIND = 2.5
#: Deviations of the incumbent above its quiet level from which the device is not quiet.
_LOUD = 3.0
#: The incumbent's level when the device is quiet: this quantile of all its times. Whoever disturbs
#: makes it slower only, so it lies below the middle of the quiet ones as long as most are quiet.
_QUIET_QUANTILE = 0.3
#: From the median distance of the times below that quantile to the deviation of one time, where
#: they are normal: 1.9 if all are quiet, 1.6 if a third is not.
_TO_DEVIATION = 1.75
#: How far the middle of quiet times is above the quantile, in deviations: 0.5 to 0.2.
_TO_MIDDLE = 0.35
#: No times repeat better than this, relative.
_LEAST_DEVIATION = 0.003


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Generic[Key]):
    """One time of a challenger, and the incumbent's before and after it."""

    key: Key
    seconds: float
    before_seconds: float
    after_seconds: float

    @property
    def log_ratio(self) -> float:
        """Of the challenger's time to the incumbent's around it."""
        around = math.sqrt(self.before_seconds * self.after_seconds)
        return math.log(self.seconds / around)


class Race(Generic[Key]):
    """Ask `next_challenger` whom to measure, `add` what came of it, until it says None."""

    def __init__(
        self, challengers: Sequence[Key], *, rounds: int, tries: int = 3, seed: int = 0
    ) -> None:
        """Start.

        Args:
            challengers: all finalists but the incumbent.
            rounds: quiet samples of each at most.
            tries: so many times as many samples are taken in all, those thrown away included.
            seed: of the order within each round.
        """
        self._challengers = tuple(challengers)
        self._rounds = rounds
        self._most_samples = tries * rounds * len(self._challengers)
        self._rng = np.random.default_rng(seed)
        self._samples: list[Sample[Key]] = []
        self._queue: list[Key] = []
        self._out: set[Key] = set()

    def next_challenger(self) -> Key | None:
        """Whom to measure next; None when the race is over."""
        if len(self._samples) >= self._most_samples:
            return None
        self._queue = [key for key in self._queue if key not in self._out]
        if not self._queue:
            waiting = [key for key in self.running() if len(self._logs(key)) < self._rounds]
            self._queue = [waiting[place] for place in self._rng.permutation(len(waiting))]
        return self._queue.pop() if self._queue else None

    def add(self, sample: Sample[Key]) -> None:
        """Take in a measurement."""
        self._samples.append(sample)

    def withdraw(self, key: Key) -> None:
        """Measure a challenger no more: it failed."""
        self._out.add(key)

    def running(self) -> tuple[Key, ...]:
        """Who may still be the fastest; the incumbent itself is not named."""
        left = [key for key in self._challengers if key not in self._out]
        scores = {key: self._score(key) for key in left}
        # The incumbent's own ratio is one, and known exactly.
        ahead, error = min([(0.0, 0.0), *(each[:2] for each in scores.values())])
        return tuple(
            key
            for key, (score, own, count) in scores.items()
            if count < FEWEST or score - ahead <= _BEHIND * math.hypot(own, error)
        )

    def ratio(self, key: Key) -> float | None:
        """A challenger's time over the incumbent's; None if no sample of it counts."""
        logs = self._logs(key)
        return math.exp(float(logs.mean())) if len(logs) else None

    def ratios(self, key: Key) -> tuple[float, ...]:
        """The same, of each sample that counts."""
        return tuple(float(each) for each in np.exp(self._logs(key)))

    @property
    def incumbent_seconds(self) -> tuple[float, ...]:
        """The incumbent's times while the device was quiet."""
        times = self._incumbent()
        return tuple(float(each) for each in times[times <= self._limit()])

    @property
    def thrown_away(self) -> int:
        """Samples that were disturbed."""
        limit = self._limit()
        return sum(not _is_quiet(sample, limit) for sample in self._samples)

    def _score(self, key: Key) -> tuple[float, float, int]:
        """Mean log ratio, its standard error, and of how many samples."""
        logs = self._logs(key)
        if not len(logs):
            return 0.0, math.inf, 0
        return float(logs.mean()), self._deviation() / math.sqrt(len(logs)), len(logs)

    def _logs(self, key: Key) -> NDArray[np.float64]:
        limit = self._limit()
        return np.array(
            [each.log_ratio for each in self._samples if each.key == key and _is_quiet(each, limit)]
        )

    def _deviation(self) -> float:
        """Of one log ratio, from those of all challengers."""
        residuals: list[float] = []
        for key in self._challengers:
            logs = self._logs(key)
            if len(logs) > 1:
                widened = math.sqrt(len(logs) / (len(logs) - 1))
                residuals += ((logs - logs.mean()) * widened).tolist()
        return max(_LEAST_DEVIATION, float(np.std(residuals))) if residuals else math.inf

    def _incumbent(self) -> NDArray[np.float64]:
        return np.array(
            [time for each in self._samples for time in (each.before_seconds, each.after_seconds)]
        )

    def _limit(self) -> float:
        """The incumbent's time from which on the device is not quiet."""
        times = self._incumbent()
        if not len(times):
            return math.inf
        low = float(np.quantile(times, _QUIET_QUANTILE))
        distance = float(np.median(low - times[times <= low]))
        deviation = max(_LEAST_DEVIATION * low, _TO_DEVIATION * distance)
        return low + (_TO_MIDDLE + _LOUD) * deviation


def _is_quiet(sample: Sample[Key], limit: float) -> bool:
    # Each for itself: whoever came or went in between shows in one of them.
    return max(sample.before_seconds, sample.after_seconds) <= limit
