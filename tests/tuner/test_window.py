"""Measurements between two readings stand or fall with both; none is lost, failures do not wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuner.records_of import candidate, record_of
from tests.tuner.test_loop import FOUR, Workshop, bench_of, proposals
from tune_farm.tuner.children.spawn import ChildDiedError
from tune_farm.tuner.interfaces import Artifact, RunReport, Verdict
from tune_farm.tuner.loop import measure
from tune_farm.tuner.types import Failed, Fault, Measured, Record
from tune_farm.tuner.window import Window

LOUD = "others were at work on the device: the memory sentinel took 1.50 times its quiet time"


class Time:
    """A clock that its owner moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Script:
    """A watch whose readings are told beforehand; quiet when nothing more is told."""

    def __init__(self, *causes: str | None) -> None:
        self._causes = list(causes)
        self.readings = 0

    def read(self, *, alone: bool) -> Verdict:
        self.readings += 1
        cause = self._causes.pop(0) if self._causes else None
        return lambda: cause


@pytest.fixture
def time() -> Time:
    return Time()


def window_of(watch: Script | None, time: Time, *, stops: bool = False) -> Window:
    return Window(watch, alone=False, should_stop=lambda: stops, clock=time, sleep=time.sleep)


def measured(
    window: Window, time: Time, count: int, *, took: float = 0.03, waited: float = 0.0
) -> Iterator[tuple[int, Record]]:
    """Measure so many candidates; what is yielded, and after how many."""
    for number in range(count):
        time.now += waited
        yield from ((number, record) for record in window.enter())
        time.now += took
        yield from ((number, record) for record in window.add(record_of(candidate(number))))


def until_it_breaks(records: Iterator[Record]) -> list[Record]:
    """What came before the error."""
    found = []
    while True:
        try:
            found.append(next(records))
        except ChildDiedError:
            return found


def is_kept(record: Record) -> bool:
    return isinstance(record.outcome, Measured)


def test_without_a_watch_nothing_waits(time: Time) -> None:
    found = list(measured(window_of(None, time), time, 3))

    assert [number for number, _ in found] == [0, 1, 2]


def test_records_wait_for_the_reading_after_them(time: Time) -> None:
    watch = Script()
    window = window_of(watch, time)

    found = list(measured(window, time, 12))
    rest = list(window.close())

    # The first reading is taken before the first candidate, the next after eight.
    assert [number for number, _ in found] == [7] * 8
    assert len(rest) == 4
    assert watch.readings == 3
    assert all(is_kept(record) for record in [*(record for _, record in found), *rest])


def test_long_measurements_fill_a_window_sooner(time: Time) -> None:
    found = list(measured(window_of(Script(), time), time, 4, took=0.2))

    assert [number for number, _ in found] == [1, 1, 3, 3]


def test_where_the_device_waits_for_builds_each_is_read_for_itself(time: Time) -> None:
    watch = Script()

    found = list(measured(window_of(watch, time), time, 4, waited=0.5))

    assert [number for number, _ in found] == [1, 1, 2, 3]
    assert watch.readings == 7  # before and after each but the first, whose wait nobody foresaw


def test_what_is_between_a_quiet_and_a_loud_reading_is_thrown_away(time: Time) -> None:
    window = window_of(Script(None, LOUD), time)

    found = [record for _, record in measured(window, time, 8)]

    assert [each.candidate for each in found] == [candidate(number) for number in range(8)]
    for record in found:
        assert isinstance(record.outcome, Failed)
        assert record.outcome.fault is Fault.CONTENDED
        assert record.outcome.detail == f"{LOUD}; thrown away: a median of 0.001 s"


def test_a_reading_that_turns_out_loud_later_counts_as_loud(time: Time) -> None:
    class Late(Script):
        def read(self, *, alone: bool) -> Verdict:
            self.readings += 1
            mine = self.readings
            return lambda: LOUD if mine == 1 and self.readings > 1 else None

    found = [record for _, record in measured(window_of(Late(), time), time, 8)]

    assert len(found) == 8
    assert not any(map(is_kept, found))


def test_nothing_is_measured_until_the_device_is_quiet(time: Time) -> None:
    watch = Script(None, LOUD, LOUD, LOUD, None, None)
    window = window_of(watch, time)

    found = [record for _, record in measured(window, time, 9)]
    found += window.close()

    assert [is_kept(record) for record in found] == [False] * 8 + [True]
    assert watch.readings == 6


def test_it_does_not_wait_forever_nor_when_told_to_stop(time: Time) -> None:
    for stops, limit in ((False, 6.0), (True, 0.1)):
        window = window_of(Script(*[LOUD] * 200), time, stops=stops)
        started = time.now

        list(window.enter())

        assert time.now - started < limit


def test_failures_do_not_wait(time: Time) -> None:
    window = window_of(Script(), time)
    list(window.enter())
    good, bad = record_of(candidate(0)), record_of(candidate(1), Fault.RUN_ERROR)

    assert list(window.add(good)) == []
    assert list(window.add(bad)) == [bad]
    assert list(window.close()) == [good]


def test_what_waits_survives_a_reading_that_breaks(time: Time) -> None:
    window = window_of(Broken(), time)
    list(window.enter())
    list(window.add(record_of(candidate(0))))
    (record,) = until_it_breaks(window.close())

    assert isinstance(record.outcome, Failed)
    assert record.outcome.detail == (
        "no reading after it: the child died; thrown away: a median of 0.001 s\nits words"
    )
    assert list(window.close()) == []


class Broken(Script):
    """Breaks at its second reading."""

    def read(self, *, alone: bool) -> Verdict:
        if self.readings:
            raise ChildDiedError(9, "the child died\nits words")
        return super().read(alone=alone)


class Breaking(Workshop):
    """Cannot work on after its second run."""

    def run(
        self, artifact: Artifact, *, incumbent_seconds: float | None, alone: bool = False
    ) -> RunReport:
        if len(self.incumbents) == 2:
            raise ChildDiedError(9, "no child starts any more")
        return super().run(artifact, incumbent_seconds=incumbent_seconds, alone=alone)


def test_a_client_that_breaks_has_told_what_it_measured(tmp_path: Path) -> None:
    workshop = Breaking(tmp_path)
    bench = replace(bench_of(workshop), watch=Script())

    found = until_it_breaks(measure(proposals(FOUR), bench=bench, incumbent_seconds=None))

    assert [record.candidate for record in found] == FOUR[:2]
    assert all(map(is_kept, found))


def test_a_stop_takes_a_last_reading_and_gives_all(tmp_path: Path) -> None:
    stop = [False, False, True]
    watch = Script()
    bench = bench_of(
        Workshop(tmp_path), should_stop=lambda: stop[0] if len(stop) == 1 else stop.pop(0)
    )

    found = list(
        measure(proposals(FOUR), bench=replace(bench, watch=watch), incumbent_seconds=None)
    )

    assert [record.candidate for record in found] == FOUR[:2]
    assert watch.readings == 2


def test_a_disturbed_window_is_measured_again(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    bench = replace(bench_of(workshop), watch=Script(None, LOUD, None, None))

    found = list(measure(proposals(FOUR), bench=bench, incumbent_seconds=None))

    assert [(record.candidate, record.attempt, is_kept(record)) for record in found] == [
        *((each, 0, False) for each in FOUR),
        *((each, 1, True) for each in FOUR),
    ]
    assert len({record.key for record in found}) == 8
