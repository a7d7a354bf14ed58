"""Measurements correct the law: the task's scale at once, the order of drafts with some data."""

from __future__ import annotations

import numpy as np

from tune_farm.tuner.predictor.residual import Residual


def features(count: int, seed: int) -> np.ndarray:  # (count, 3) float32
    return np.random.default_rng(seed).random((count, 3)).astype(np.float32)


def truth(rows: np.ndarray) -> np.ndarray:
    """log2(measured / law): what a law forgot."""
    return 3.0 * (rows[:, 1] > 0.5)


def teach(residual: Residual, task_id: str, rows: np.ndarray, scale: float) -> None:
    for row, error in zip(rows, truth(rows), strict=True):
        residual.add(task_id, row, law=1e-3, measured=1e-3 * scale * 2.0 ** float(error))


def test_without_data_the_law_stands_alone() -> None:
    assert (Residual(threads=1).factor("a", features(5, 0)) == 1.0).all()


def test_few_measurements_set_the_scale_only() -> None:
    residual = Residual(threads=1)
    for row in features(3, 0):
        residual.add("a", row, law=1e-3, measured=4e-3)

    assert (residual.factor("a", features(5, 1)) == 4.0).all()


def test_what_the_law_forgot_is_learned() -> None:
    residual = Residual(threads=1)
    teach(residual, "a", features(64, 0), scale=1.0)
    unseen = features(200, 1)

    factors = residual.factor("a", unseen)

    slow = truth(unseen) > 0
    assert np.median(factors[slow]) > 4 * np.median(factors[~slow])


def test_one_task_teaches_another_whose_scale_differs() -> None:
    residual = Residual(threads=1)
    teach(residual, "a", features(64, 0), scale=1.0)
    teach(residual, "b", features(4, 2), scale=32.0)
    unseen = features(200, 1)

    here, there = residual.factor("a", unseen), residual.factor("b", unseen)

    assert np.corrcoef(np.log(here), np.log(there))[0, 1] > 0.99
    assert np.median(there) > 4 * np.median(here)


def test_the_same_data_give_the_same_answer() -> None:
    first, second = Residual(threads=1), Residual(threads=1)
    for residual in (first, second):
        teach(residual, "a", features(40, 0), scale=1.0)

    unseen = features(50, 1)
    assert (first.factor("a", unseen) == second.factor("a", unseen)).all()
