"""The tuned build ships if it is right and not slower than untuned, noise allowed for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tune_farm.client.messages import Comparison
from tune_farm.client.whole_model.agreement import Agreement
from tune_farm.server.end_to_end import judge, saved_interval


def comparison(
    baseline: tuple[float, ...], tuned: tuple[float, ...], wrong: str | None = None
) -> Comparison:
    return Comparison(
        baseline_seconds=baseline,
        tuned_seconds=tuned,
        agreement=Agreement(wrong=wrong, max_relative_error=0.002, rounding_error=0.004),
    )


FAST, SLOW, NOISY = (1.0, 1.01, 0.99), (2.0, 2.02, 2.01), (1.1, 0.9, 1.06)


def test_faster_and_right_ships() -> None:
    verdict = judge(comparison(SLOW, FAST))

    assert verdict.shipped == "tuned"
    assert verdict.checked
    assert (verdict.baseline_seconds, verdict.tuned_seconds) == (2.01, 1.0)
    assert verdict.repeats == 3
    assert (verdict.max_relative_error, verdict.rounding_error) == (0.002, 0.004)
    assert verdict.saved_interval_seconds is not None
    low, high = verdict.saved_interval_seconds
    assert 0.9 < low < 1.01 < high < 1.1


def test_a_wrong_output_never_ships_however_fast() -> None:
    verdict = judge(comparison(SLOW, FAST, wrong="output 0 differs by 3.00% of its largest value"))

    assert verdict.shipped == "untuned"
    assert not verdict.checked
    assert verdict.wrong == "output 0 differs by 3.00% of its largest value"


def test_slower_beyond_the_interval_does_not_ship() -> None:
    verdict = judge(comparison(FAST, SLOW))

    assert verdict.shipped == "untuned"
    assert verdict.checked
    assert verdict.is_slower


def test_a_difference_within_the_noise_ships() -> None:
    assert judge(comparison(FAST, NOISY)).shipped == "tuned"


def test_pairs_share_the_machines_mood() -> None:
    # Both builds slow down together: the difference stays certain.
    drifting = tuple(1.0 + 0.5 * step for step in range(5))
    behind = tuple(seconds + 0.01 + 0.001 * (step % 2) for step, seconds in enumerate(drifting))

    assert judge(comparison(drifting, behind)).shipped == "untuned"


@pytest.mark.parametrize("pairs", [0, 1])
def test_there_is_no_interval_of_less_than_two_pairs(pairs: int) -> None:
    assert saved_interval((1.0,) * pairs, (2.0,) * pairs) is None


def test_the_interval_is_students() -> None:
    # Differences 1, 2, 3: mean 2, standard error 1/sqrt(3), t(0.975, 2) = 4.3027.
    low, high = saved_interval((2.0, 4.0, 6.0), (1.0, 2.0, 3.0)) or (0.0, 0.0)

    assert (low, high) == pytest.approx((2 - 4.3027 / 3**0.5, 2 + 4.3027 / 3**0.5), abs=1e-3)


seconds = st.floats(1e-3, 10.0)


@given(pairs=st.lists(st.tuples(seconds, seconds), min_size=2, max_size=15))
def test_the_mean_lies_within_and_swapping_mirrors(pairs: list[tuple[float, float]]) -> None:
    baseline, tuned = (tuple(side) for side in zip(*pairs, strict=True))
    interval, mirrored = saved_interval(baseline, tuned), saved_interval(tuned, baseline)

    assert interval is not None
    assert mirrored is not None
    mean = sum(before - after for before, after in pairs) / len(pairs)
    assert interval[0] - 1e-9 <= mean <= interval[1] + 1e-9
    assert mirrored == pytest.approx((-interval[1], -interval[0]), abs=1e-9)
