"""Two builds agree within what rounding explains for this model; nothing else is forgiven."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tune_farm.client.whole_model.agreement import (
    ALLOWED_ERROR,
    Agreement,
    Arrays,
    compare,
    nudged,
    relative_error,
)

NAN, INF = math.nan, math.inf


def steady(arguments: Arrays) -> Arrays:
    """A model that rounding does not move."""
    return [np.array(output, "float32") for output in ([5.0], [1.0, 1000.0])]


def compared(right: Sequence[Any], actual: Sequence[Any]) -> Agreement:
    return compare(
        [np.array(output, "float32") for output in right],
        [np.array(output, "float32") for output in actual],
        arguments=[np.ones(3, "float32")],
        run_untuned=steady,
    )


@pytest.mark.parametrize(
    ("actual", "right", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.2], [1.0, 2.0], 0.1),
        ([NAN, 2.0], [NAN, 2.0], 0.0),
        ([INF, 2.0], [INF, 2.0], 0.0),
        ([0.0], [0.0], 0.0),
        ([1.0], [0.0], INF),
        ([-INF, 2.0], [INF, 2.0], INF),
        ([7.0, 2.0], [INF, 2.0], INF),
    ],
)
def test_the_error_is_relative_to_the_largest_value(
    actual: list[float], right: list[float], error: float
) -> None:
    assert relative_error(np.array(actual), np.array(right)) == pytest.approx(error)


def test_what_most_models_round_to_needs_no_second_look() -> None:
    agreement = compared([[5.0], [1.0, 1000.0]], [[5.0], [1.5, 1000.0]])

    assert agreement.wrong is None
    assert agreement.max_relative_error == pytest.approx(0.5 / 1000)
    assert agreement.rounding_error is None


@pytest.mark.parametrize("actual", [[1.0, 1010.0], [1.0, NAN], [1.0, INF], [20.0, 1000.0]])
def test_more_is_wrong_where_rounding_moves_nothing(actual: list[float]) -> None:
    agreement = compared([[5.0], [1.0, 1000.0]], [[5.0], actual])

    assert str(agreement.wrong).startswith("output 1 differs by ")


def test_a_missing_output_is_our_own_bug() -> None:
    with pytest.raises(ValueError, match="shorter"):
        compared([[1.0], [2.0]], [[1.0]])


#: Nearly equal values, so that E[x²] - E[x]² cancels all but the rounding.
VALUES = (1.0 + 1e-2 * np.random.default_rng(0).standard_normal(4096)).astype("float32")


def deviation(values: NDArray[Any], *, in_order: bool) -> Arrays:
    """A standard deviation that amplifies rounding; two ways to add, both right."""

    def mean(terms: NDArray[Any]) -> Any:
        if in_order:
            return np.add.accumulate(terms, dtype="float32")[-1] / np.float32(len(terms))
        return np.mean(terms, dtype="float32")

    return [np.sqrt(np.abs(mean(values * values) - mean(values) ** 2)).reshape(1)]


def ill_conditioned(arguments: Arrays) -> Arrays:
    return deviation(np.asarray(arguments[0]), in_order=True)


def test_a_model_that_amplifies_rounding_is_not_called_wrong() -> None:
    right, actual = ill_conditioned([VALUES]), deviation(VALUES, in_order=False)
    assert relative_error(actual[0], right[0]) > ALLOWED_ERROR, "the case is what it is meant to be"

    agreement = compare(right, actual, arguments=[VALUES], run_untuned=ill_conditioned)

    assert agreement.wrong is None
    assert agreement.rounding_error is not None
    assert agreement.rounding_error > ALLOWED_ERROR / 2


def test_a_wrong_result_of_such_a_model_is_still_wrong() -> None:
    right = ill_conditioned([VALUES])

    agreement = compare(
        right,
        [np.float32(1.04) * np.asarray(right[0], "float32")],
        arguments=[VALUES],
        run_untuned=ill_conditioned,
    )

    assert str(agreement.wrong).startswith("output 0 differs by 4.00% of its largest value; ")


def test_operators_that_round_more_may_move_the_output_more() -> None:
    weights = [np.linspace(-1.0, 1.0, 100, dtype="float32")]

    def model(arguments: Arrays) -> Arrays:
        return [1e3 * np.asarray(arguments[0], "float32")[:50] + np.float32(1.0)]

    right = model(weights)
    actual = [np.asarray(right[0], "float32") * np.float32(1.002)]

    def agreement(rounding: float) -> Agreement:
        return compare(right, actual, arguments=weights, run_untuned=model, rounding=rounding)

    assert agreement(1.0).wrong is not None
    assert agreement(100.0).wrong is None


def test_the_bound_is_told_where_rounding_explains_less() -> None:
    agreement = compared([[5.0], [1.0, 1000.0]], [[5.0], [1.0, 1010.0]])

    assert agreement.wrong == (
        "output 1 differs by 1.00% of its largest value; rounding alone moves it by 0.00%"
    )


def test_integers_are_not_nudged_and_floats_by_a_few_units_in_the_last_place() -> None:
    rng = np.random.default_rng(0)
    ids, weights = np.arange(4), np.ones(100, "float32")

    assert nudged(ids, rng) is ids
    moved = np.abs(nudged(weights, rng) - weights)
    assert nudged(weights, rng).dtype == np.float32
    assert 0 < moved.min() <= moved.max() < 3e-5
