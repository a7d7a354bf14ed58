"""The process passes through what it knows, follows slopes, and doubts what is far away."""

from __future__ import annotations

import numpy as np

from tune_farm.tuner.predictor.gaussian_process import fit_process


def rows_of(count: int, seed: int) -> np.ndarray:  # (count, 3) float64
    return np.random.default_rng(seed).uniform(-1.0, 1.0, size=(count, 3))


def truth(rows: np.ndarray) -> np.ndarray:
    return np.asarray(5.0 + 2.0 * rows[:, 0] + np.sin(3.0 * rows[:, 1]))


def test_what_is_known_is_repeated() -> None:
    rows = rows_of(40, 0)
    process = fit_process(rows, truth(rows), rows)

    assert np.abs(process.mean_at(rows) - truth(rows)).max() < 0.1


def test_slopes_are_found_from_few_rows() -> None:
    rows, unseen = rows_of(40, 0), rows_of(200, 1)
    process = fit_process(rows, truth(rows), unseen)

    assert np.corrcoef(process.mean_at(unseen), truth(unseen))[0, 1] > 0.97


def test_what_is_far_from_the_known_is_doubted() -> None:
    rows = rows_of(40, 0)
    process = fit_process(rows, truth(rows), rows)

    near, far = process.deviation_at(rows).max(), process.deviation_at(rows + 5.0).min()
    assert far > 3 * near


def test_a_column_that_never_changes_and_values_that_never_do() -> None:
    rows = np.concatenate([rows_of(15, 0), np.ones((15, 1))], axis=1)
    process = fit_process(rows, np.full(15, 2.0), rows)

    assert np.allclose(process.mean_at(rows), 2.0)
    assert np.isfinite(process.deviation_at(rows)).all()


def test_units_of_features_and_values_do_not_matter() -> None:
    rows, unseen = rows_of(30, 0), rows_of(20, 1)
    plain = fit_process(rows, truth(rows), rows)
    scaled = fit_process(rows * 1e3, truth(rows) * 1e3, rows * 1e3)

    assert np.allclose(scaled.mean_at(unseen * 1e3), 1e3 * plain.mean_at(unseen))


def test_rows_that_are_all_the_same_are_fitted() -> None:
    rows = np.zeros((12, 2))
    process = fit_process(rows, np.arange(12.0), rows)

    assert np.allclose(process.mean_at(rows), 5.5)
