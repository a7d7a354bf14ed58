"""What is kept and what is measured next, decided on arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tune_farm.tuner.strategy.selection import Policy, next_trials, split


def random_seconds(count: int, seed: int) -> np.ndarray:  # (count,) float64
    return np.random.default_rng(seed).uniform(1.0, 2.0, count)


@given(
    count=st.integers(0, 60),
    keep=st.integers(0, 80),
    hedge=st.floats(0.0, 1.0),
    seed=st.integers(0, 9),
)
def test_every_draft_is_kept_or_rejected(count: int, keep: int, hedge: float, seed: int) -> None:
    seconds, law = random_seconds(count, seed), random_seconds(count, seed + 100)

    kept, rejected = split(seconds, keep, law=law, hedge=hedge)

    assert len(kept) == min(count, keep)
    assert sorted([*kept, *rejected]) == list(range(count))
    for rows in (kept, rejected):
        assert (np.diff(seconds[rows]) >= 0).all()


def test_without_a_hedge_the_best_predicted_are_kept() -> None:
    seconds = random_seconds(50, 0)

    kept, rejected = split(seconds, 10)

    assert seconds[kept].max() <= seconds[rejected].min()


def test_a_hedge_keeps_what_only_the_law_holds_for_good() -> None:
    seconds, law = np.arange(100.0), np.arange(100.0)[::-1].copy()

    kept, _ = split(seconds, 10, law=law, hedge=0.3)

    assert set(kept) == {0, 1, 2, 3, 4, 5, 6, 97, 98, 99}


def test_half_is_the_most_promising_and_half_is_drawn_from_the_best() -> None:
    seconds, doubt = np.arange(1.0, 101.0), np.zeros(100)
    doubt[40] = 6.0  # 41 seconds, but it may be less than one

    rows = next_trials(seconds, doubt, 8, policy=Policy(keep=0.1), rng=np.random.default_rng(0))

    assert rows[:4].tolist() == [40, 0, 1, 2]
    assert len(set(rows.tolist())) == 8
    assert rows[4:].max() < 20


def test_what_is_known_is_not_measured_again() -> None:
    seconds = np.full(10, np.inf)
    seconds[[3, 5]] = 1.0
    rng = np.random.default_rng(0)

    assert sorted(next_trials(seconds, np.zeros(10), 8, policy=Policy(), rng=rng)) == [3, 5]
    nothing = next_trials(np.full(10, np.inf), np.zeros(10), 8, policy=Policy(), rng=rng)
    assert not len(nothing)
