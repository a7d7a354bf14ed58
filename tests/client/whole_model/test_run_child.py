"""Two builds of a model agree within what summation order explains; nothing else is forgiven."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tune_farm.client.whole_model.run_child import Models, _relative_error

NAN, INF = math.nan, math.inf


def compared(baseline: list[Any], tuned: list[Any]) -> str | None:
    models = Models.__new__(Models)
    models._outputs = {
        False: [np.array(output, "float32") for output in baseline],
        True: [np.array(output, "float32") for output in tuned],
    }
    return models.compare().wrong


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
    assert _relative_error(np.array(actual), np.array(right)) == pytest.approx(error)


def test_rounding_is_forgiven() -> None:
    assert compared([[1.0, 1000.0]], [[1.5, 1000.0]]) is None


@pytest.mark.parametrize("tuned", [[1.0, 1010.0], [1.0, NAN], [1.0, INF], [20.0, 1000.0]])
def test_more_is_wrong(tuned: list[float]) -> None:
    assert str(compared([[5.0], [1.0, 1000.0]], [[5.0], tuned])).startswith("output 1 differs by ")


def test_a_missing_output_is_our_own_bug() -> None:
    with pytest.raises(ValueError, match="shorter"):
        compared([[1.0], [2.0]], [[1.0]])
