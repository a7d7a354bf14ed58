"""Measurements wait until it is known whether the device was quiet before and after them.

A guest who comes and goes between two readings is not seen, so they are never far apart.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tune_farm.tuner.interfaces import Verdict, Watch
from tune_farm.tuner.types import Failed, Fault, Measured, Record

#: Measurements between two readings at most.
_MOST = 8
#: A reading this old does not tell whether the device is quiet now. Guests that stay longer, and
#: the last of the measurements with it, show in one of the two readings around a window.
_FRESH_SECONDS = 0.3
#: The device was idle for so long until the next candidate was built: time for another reading.
_IDLE_SECONDS = 0.1
#: Where the last reading was disturbed, what is measured now will be thrown away; so long it waits
#: for a quiet one, looking so often.
_PATIENCE_SECONDS = 5.0
_PAUSE_SECONDS = 0.1


class Window:
    """The records between two readings. Without a watch each passes at once.

    Whoever stops to ask for records before `close` is through loses those that wait.
    """

    def __init__(
        self,
        watch: Watch | None,
        *,
        alone: bool,
        should_stop: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Open a window without records.

        Args:
            watch: takes the readings.
            alone: what is measured runs alone, and so do they.
            should_stop: asked while a quiet device is waited for.
            clock: seconds, only forward.
            sleep: waits for so many of them.
        """
        self._watch = watch
        self._alone = alone
        self._should_stop = should_stop
        self._clock = clock
        self._sleep = sleep
        self._held: list[Record] = []  #: measured since the latest reading
        self._before: Verdict | None = None  #: of the latest reading
        self._read_at = -math.inf  #: when it ended
        self._left_at = math.inf  #: when the latest candidate was done
        self._idles = False  #: whether the device waited for the current candidate

    def enter(self) -> Iterator[Record]:
        """Before a candidate is measured: see that the device is quiet, or wait a while for it.

        Yields what waited for the readings that this takes.
        """
        if self._watch is None:
            return
        now = self._clock()
        self._idles = now - self._left_at > _IDLE_SECONDS
        if now - self._read_at > _FRESH_SECONDS:
            yield from self._read(self._watch)
        end = now + _PATIENCE_SECONDS
        while self._is_disturbed() and self._clock() < end and not self._should_stop():
            self._sleep(_PAUSE_SECONDS)
            yield from self._read(self._watch)

    def add(self, record: Record) -> Iterator[Record]:
        """After it: yields the record at once if it failed, else with its window."""
        if self._watch is None or isinstance(record.outcome, Failed):
            yield record
        else:
            self._held.append(record)
            is_old = self._clock() - self._read_at > _FRESH_SECONDS
            if is_old or self._idles or len(self._held) >= _MOST:
                yield from self._read(self._watch)
        self._left_at = self._clock()

    def close(self) -> Iterator[Record]:
        """In the end: yields what still waits."""
        if self._watch is not None and self._held:
            yield from self._read(self._watch)

    def _is_disturbed(self) -> bool:
        return self._before is not None and self._before() is not None

    def _read(self, watch: Watch) -> Iterator[Record]:
        before, held, self._held = self._before, self._held, []
        try:
            self._before = watch.read(alone=self._alone)
        except Exception as error:
            for record in held:
                yield _thrown_away(record, f"no reading after it: {error}")
            raise
        self._read_at = self._clock()
        # The level that the first reading is held against may be known better by now.
        cause = (before() if before is not None else None) or self._before()
        for record in held:
            yield record if cause is None else _thrown_away(record, cause)


def _thrown_away(record: Record, cause: str) -> Record:
    assert isinstance(record.outcome, Measured)
    first, *rest = cause.splitlines() or [""]
    line = f"{first}; thrown away: a median of {record.outcome.median_seconds:.4g} s"
    return replace(record, outcome=Failed(fault=Fault.CONTENDED, detail="\n".join([line, *rest])))
