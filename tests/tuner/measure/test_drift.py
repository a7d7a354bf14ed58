"""Guests are found, noise is not taken for one, and the level follows the device."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray

from tune_farm.tuner.measure.drift import QuietLevel, Reading, reading_of

#: Between two readings.
STEP_SECONDS = 0.3
REPEATS = 4
Times = NDArray[np.float64]


def readings(
    levels: Iterable[float], *, noise: float, seed: int, started: float = 0.0
) -> list[Reading]:
    """One reading for each true time, with noise in each repeat."""
    rng = np.random.default_rng(seed)
    return [
        reading_of(
            (level * (1 + noise * rng.standard_normal(REPEATS))).tolist(),
            at_seconds=started + STEP_SECONDS * number,
        )
        for number, level in enumerate(levels)
    ]


def is_loud(series: list[Reading], *, first: int = 8) -> list[bool]:
    """Of each reading after the first ones, judged as soon as it is known."""
    level = QuietLevel(series[:first])
    found = []
    for reading in series[first:]:
        level.add(reading)
        found.append(level.is_loud(reading))
    return found


def guests(count: int, *, busy: float, slowdown: float, stay: int, seed: int) -> Times:
    """The slowdown of each reading by one who stays for several when it comes."""
    turns = np.random.default_rng(seed).random(-(-count // stay)) < busy
    return np.where(np.repeat(turns, stay)[:count], slowdown, 1.0)


def test_a_reading_is_the_mean_of_its_repeats_and_how_sure_that_is() -> None:
    reading = reading_of([1.0, 1.2, 0.8, 1.0], at_seconds=7.0)

    assert reading.seconds == pytest.approx(1.0)
    assert reading.error_seconds == pytest.approx(0.1633 / 2, rel=1e-3)
    assert reading.at_seconds == 7.0


@pytest.mark.parametrize("noise", [0.001, 0.02, 0.06])
def test_noise_is_seldom_taken_for_a_guest(noise: float) -> None:
    alarms = [
        alarm
        for seed in range(8)
        for alarm in is_loud(readings(np.full(208, 2e-4), noise=noise, seed=seed))
    ]

    assert np.mean(alarms) < 0.02


@pytest.mark.parametrize(("slowdown", "noise"), [(1.06, 0.005), (1.15, 0.02), (1.6, 0.05)])
@pytest.mark.parametrize("stay", [1, 5])
def test_guests_are_found_and_the_quiet_between_them_too(
    slowdown: float, noise: float, stay: int
) -> None:
    missed, wrong = [], []
    for seed in range(8):
        true = guests(300, busy=0.3, slowdown=slowdown, stay=stay, seed=seed)
        true[2] = 1.0  # one of the first is quiet: they are taken over a while
        alarms = np.array(is_loud(readings(true, noise=noise, seed=seed)))
        was_busy = true[8:] > 1
        missed.append(np.mean(~alarms[was_busy]))
        wrong.append(np.mean(alarms[~was_busy]))

    assert np.mean(missed) < 0.01
    assert np.mean(wrong) < 0.02


def test_another_clock_becomes_the_level_after_a_while() -> None:
    true = np.concatenate([np.full(100, 1.0), np.full(200, 1.1)])
    alarms = is_loud(readings(true, noise=0.01, seed=0))

    before, after = alarms[:92], alarms[92:]
    lasted = after.index(False)
    assert sum(before) <= 2
    assert 10.0 <= lasted * STEP_SECONDS < 12.0
    assert sum(after[lasted:]) <= 4


def test_one_who_stays_for_seconds_never_becomes_the_level() -> None:
    true = np.concatenate([np.full(50, 1.0), np.full(30, 1.5), np.full(20, 1.0)])
    alarms = is_loud(readings(true, noise=0.01, seed=0))

    assert all(alarms[42:72])
    assert sum(alarms[:42]) + sum(alarms[72:]) <= 2


def test_slow_drift_is_followed() -> None:
    true = np.linspace(1.0, 1.15, 600)

    assert np.mean(is_loud(readings(true, noise=0.01, seed=0))) < 0.02


def test_where_a_guest_was_there_from_the_start_the_level_falls_once_it_leaves() -> None:
    level = QuietLevel(readings(np.full(8, 1.5), noise=0.01, seed=0))
    for reading in readings(np.full(4, 1.0), noise=0.01, seed=1, started=10.0):
        level.add(reading)

    assert level.seconds == pytest.approx(1.0, rel=0.02)
    (back,) = readings([1.5], noise=0.01, seed=2, started=20.0)
    assert level.is_loud(back)
    assert level.ratio(back) == pytest.approx(1.5, rel=0.04)


def test_one_fast_reading_moves_nothing() -> None:
    level = QuietLevel(readings(np.full(8, 1.0), noise=0.01, seed=0))
    (fast,) = readings([0.5], noise=0.0, seed=0, started=10.0)
    level.add(fast)

    assert level.seconds == pytest.approx(1.0, rel=0.02)
