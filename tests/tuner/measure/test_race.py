from __future__ import annotations

import numpy as np
import pytest

from tune_farm.tuner.measure.race import Race, Sample


class Device:
    """Kernels with noise on a device that others use, too; time passes with each sample."""

    def __init__(
        self, seconds: dict[str, float], *, noise: float, busy: float, seed: int, drift: float = 0.0
    ) -> None:
        self._seconds, self._noise, self._drift = seconds, noise, drift
        self._rng = np.random.default_rng(seed)
        # Whoever comes stays for a while.
        turns = self._rng.random(4000) < busy
        self._busy = np.repeat(turns, 5)
        self._now = 0

    def time(self, key: str) -> float:
        self._now += 1
        slowdown = 1.3 + 0.7 * (sum(key.encode()) % 7) / 6 if self._busy[self._now] else 1.0
        drift = 1 + self._drift * np.sin(self._now / 40)
        noise = 1 + self._noise * self._rng.standard_normal()
        return float(self._seconds[key] * slowdown * drift * noise)


def raced(device: Device, incumbent: str, challengers: list[str], rounds: int) -> Race[str]:
    race = Race(challengers, rounds=rounds)
    before = device.time(incumbent)
    while (key := race.next_challenger()) is not None:
        seconds, after = device.time(key), device.time(incumbent)
        race.add(Sample(key=key, seconds=seconds, before_seconds=before, after_seconds=after))
        before = after
    return race


def fastest(race: Race[str], incumbent: str, challengers: list[str]) -> str:
    ratios = {key: race.ratio(key) or 9.0 for key in challengers}
    best = min(ratios, key=lambda key: ratios[key])
    return best if ratios[best] < 1 else incumbent


SECONDS = {"a": 1.00, "b": 1.03, "c": 0.95, "d": 1.10, "e": 1.50}
OTHERS = ["b", "c", "d", "e"]


@pytest.mark.parametrize("busy", [0.0, 0.3])
def test_the_fastest_wins_though_others_are_at_work(busy: float) -> None:
    wins = 0
    for seed in range(20):
        device = Device(SECONDS, noise=0.02, busy=busy, seed=seed)
        wins += fastest(raced(device, "a", OTHERS, 16), "a", OTHERS) == "c"

    assert wins >= 19


def test_drift_cancels() -> None:
    device = Device(SECONDS, noise=0.005, busy=0.0, seed=0, drift=0.1)
    race = raced(device, "a", OTHERS, 8)

    assert race.ratio("c") == pytest.approx(0.95, rel=0.02)


def test_who_is_clearly_behind_is_dropped_early() -> None:
    race = raced(Device(SECONDS, noise=0.01, busy=0.0, seed=1), "a", OTHERS, 16)

    assert len(race.ratios("e")) < 6
    assert "e" not in race.running()


def test_disturbed_samples_are_thrown_away_and_taken_again() -> None:
    race = raced(Device(SECONDS, noise=0.01, busy=0.3, seed=2), "a", ["b", "c"], 8)

    assert race.thrown_away > 0
    assert len(race.ratios("c")) >= 3
    assert max(race.incumbent_seconds) < 1.1
    assert race.ratio("c") == pytest.approx(0.95, rel=0.03)


def test_a_race_ends_where_the_device_is_never_quiet() -> None:
    race = Race(["b"], rounds=4, tries=3)
    rng = np.random.default_rng(0)
    count = 0
    while (key := race.next_challenger()) is not None:
        before, after = rng.lognormal(0, 1.0, 2)
        race.add(
            Sample(key=key, seconds=1.0, before_seconds=float(before), after_seconds=float(after))
        )
        count += 1

    assert count <= 12


def test_a_challenger_that_failed_is_measured_no_more() -> None:
    race = Race(["b", "c"], rounds=4)
    race.withdraw("b")

    assert race.next_challenger() == "c"
    assert race.ratio("b") is None


def test_without_challengers_there_is_no_race() -> None:
    race: Race[str] = Race([], rounds=4)

    assert race.next_challenger() is None
    assert race.incumbent_seconds == ()
