"""A task is checked on the same numbers everywhere; no result looks like an untouched buffer."""

from __future__ import annotations

import numpy as np
import pytest

from tune_farm.tuner.measure.inputs import make_inputs, poisoned
from tune_farm.tuner.types import TensorSpec

ARGUMENTS = (
    TensorSpec(shape=(3, 4), dtype="float32", is_output=False),
    TensorSpec(shape=(50,), dtype="int64", is_output=False),
    TensorSpec(shape=(), dtype="float16", is_output=False),
    TensorSpec(shape=(3,), dtype="float32", is_output=True),
)


def test_inputs_have_the_shapes_and_types_of_the_arguments() -> None:
    inputs = make_inputs(ARGUMENTS, task_id="1", positive=False)

    assert [(array.shape, array.dtype.name) for array in inputs] == [
        ((3, 4), "float32"),
        ((50,), "int64"),
        ((), "float16"),
    ]
    assert set(inputs[1].tolist()) == {0, 1}


def test_a_tasks_numbers_are_its_own_and_always_the_same() -> None:
    first, again, other = (
        make_inputs(ARGUMENTS, task_id=task_id, positive=False)[0] for task_id in ("1", "1", "2")
    )

    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(("positive", "low", "high"), [(False, -1.0, 1.0), (True, 0.5, 1.5)])
def test_floats_stay_within_bounds(positive: bool, low: float, high: float) -> None:
    wide = TensorSpec(shape=(1000,), dtype="float32", is_output=False)

    (array,) = make_inputs([wide], task_id="1", positive=positive)

    assert low <= float(array.min()) < float(array.max()) <= high
    assert float(array.min()) < low + 0.1


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_untouched_floats_are_not_numbers(dtype: str) -> None:
    buffer = poisoned(TensorSpec(shape=(2, 3), dtype=dtype, is_output=True))

    assert buffer.dtype.name == dtype
    assert buffer.shape == (2, 3)
    assert np.isnan(buffer).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_untouched_integers_are_far_from_zero_and_one(dtype: str) -> None:
    buffer = poisoned(TensorSpec(shape=(4,), dtype=dtype, is_output=True))

    assert buffer.dtype.name == dtype
    assert all(abs(value) > 1 for value in buffer.tolist())
