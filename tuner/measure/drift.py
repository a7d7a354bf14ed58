"""Whether a kernel that is timed again and again takes longer than while the device is quiet.

Others on the device make it slower only. What is near the fastest of the first readings is quiet;
from then on a reading is loud when it lies clearly above the quiet ones, and only those that do not
are remembered, so that whoever comes and goes never moves the level. What stays slower for long is
no guest but another clock, and becomes the level; what is faster becomes it at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

#: Above the quiet level by less than this, relative, is never loud.
_LEAST = 0.03
#: Deviations of one reading above the quiet level from which it is loud: several kernels are read
#: each time, and one false alarm costs all that was measured since the last.
_LOUD = 4.0
#: Standard errors by which quiet ones among the first readings may lie above the fastest of them.
_APART = 6.0
#: From the median absolute deviation to the deviation, where times are normal.
_TO_DEVIATION = 1.4826
#: Quiet readings that are remembered: enough for their spread, few enough to follow a warm device.
_REMEMBERED = 32
#: A level that lasted so long, in so many readings without a quiet one between, is there to stay.
_LASTING_SECONDS = 10.0
_LASTING = 8
#: So many readings in a row clearly below the level: whoever was there when it was taken has left.
_FASTER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One kernel, timed once."""

    seconds: float  # the mean of its repeats: a guest in any of them shows
    error_seconds: float  # standard error of that mean, by the spread of its repeats
    at_seconds: float  # when that was, on any clock that goes forward


def reading_of(repeats_seconds: Sequence[float], *, at_seconds: float) -> Reading:
    """The reading that two or more repeats make."""
    error = stdev(repeats_seconds) / len(repeats_seconds) ** 0.5
    return Reading(seconds=fmean(repeats_seconds), error_seconds=error, at_seconds=at_seconds)


class QuietLevel:
    """One kernel's time on a quiet device, as its readings tell."""

    def __init__(self, first: Sequence[Reading]) -> None:
        """Begin.

        Args:
            first: some readings, at least one of them on a quiet device.
        """
        #: The latest readings that were quiet; written by `add` and `_restart`.
        self._quiet: deque[Reading] = deque(maxlen=_REMEMBERED)
        self._loud: list[Reading] = []  #: since the latest quiet one
        self._faster: list[Reading] = []  #: the latest quiet ones, if all are below the level
        self._restart(first)

    @property
    def seconds(self) -> float:
        """The level."""
        return median(each.seconds for each in self._quiet)

    def ratio(self, reading: Reading) -> float:
        """A reading's time over the level."""
        return reading.seconds / self.seconds

    def is_loud(self, reading: Reading) -> bool:
        """Whether somebody else was at work."""
        return self.ratio(reading) > 1 + self._margin()

    def add(self, reading: Reading) -> None:
        """Take in a reading, later than all before."""
        if self.is_loud(reading):
            self._faster = []
            self._loud.append(reading)
            lasted = reading.at_seconds - self._loud[0].at_seconds
            if len(self._loud) >= _LASTING and lasted >= _LASTING_SECONDS:
                self._restart(self._loud[-_REMEMBERED:])
            return
        is_faster = self.ratio(reading) < 1 - self._margin()
        self._loud = []
        self._faster = [*self._faster, reading] if is_faster else []
        self._quiet.append(reading)
        if len(self._faster) >= _FASTER:
            self._restart(self._faster)

    def _restart(self, readings: Sequence[Reading]) -> None:
        fastest = min(each.seconds for each in readings)
        error = median(each.error_seconds for each in readings)
        limit = fastest + max(2 * _LEAST * fastest, _APART * error)
        self._quiet.clear()
        self._quiet.extend(each for each in readings if each.seconds <= limit)
        self._loud, self._faster = [], []

    def _margin(self) -> float:
        """How far above the level a reading may be, relative to it."""
        level = self.seconds
        spread = _TO_DEVIATION * median(abs(each.seconds - level) for each in self._quiet)
        # Few readings may lie close together by chance; their repeats tell what to expect.
        error = median(each.error_seconds for each in self._quiet)
        return max(_LEAST, _LOUD * max(spread, error) / level)
