"""Measurements of one operator correct the law for it."""

from __future__ import annotations

import numpy as np

from tune_farm.tuner.predictor.correction import Correction


def decisions(count: int, seed: int) -> np.ndarray:  # (count, 3) float64
    return np.random.default_rng(seed).integers(0, 5, size=(count, 3)).astype(np.float64)


def truth(rows: np.ndarray) -> np.ndarray:
    """log2(measured / law): a switch, and a slope."""
    return np.asarray(2.0 * (rows[:, 0] > 2) + 0.5 * rows[:, 1])


def taught(count: int) -> Correction:
    correction = Correction(decisions(300, 1), threads=1)
    for row in decisions(count, 0):
        correction.add(row, law=1e-3, measured=1e-3 * 2.0 ** float(truth(row[None])[0]))
    return correction


def test_without_data_the_law_stands_alone_and_is_not_doubted() -> None:
    unseen = decisions(5, 2)

    assert (taught(0).factor(unseen) == 1.0).all()
    assert (taught(0).doubt(unseen) == 0.0).all()


def test_few_measurements_set_the_scale_only() -> None:
    factors = taught(5).factor(decisions(20, 2))

    assert (factors == factors[0]).all()
    assert factors[0] > 1.0


def test_what_the_law_forgot_is_learned() -> None:
    unseen = decisions(200, 2)

    learned = np.log2(taught(64).factor(unseen))

    assert np.abs(learned - truth(unseen)).mean() < 0.25


def test_what_is_unlike_all_that_was_measured_is_doubted() -> None:
    correction = taught(64)

    assert (
        correction.doubt(decisions(20, 2) + 20.0).min() > correction.doubt(decisions(64, 0)).max()
    )


def test_the_same_data_give_the_same_answer() -> None:
    unseen = decisions(50, 2)

    assert (taught(40).factor(unseen) == taught(40).factor(unseen)).all()
