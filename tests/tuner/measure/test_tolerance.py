"""Rounding is forgiven, a missing term is not, and integers are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tune_farm.tuner.measure.tolerance import Tolerance, difference, tolerance

lengths = st.integers(8, 4608)
seeds = st.integers(0, 2**32 - 1)
ELEMENTS = 64


def terms_of(seed: int, length: int, dtype: str = "float32") -> NDArray[Any]:
    """Products of inputs as checks draw them: (elements, length)."""
    rng = np.random.default_rng(seed)
    left, right = rng.uniform(-1, 1, size=(2, ELEMENTS, length)).astype(dtype)
    return np.asarray(left * right)


def in_order(terms: NDArray[Any]) -> NDArray[Any]:
    """The sums as an unscheduled loop takes them: one after the other, rounded at each step."""
    return np.asarray(np.cumsum(terms, axis=1, dtype=terms.dtype)[:, -1])


def check(actual: NDArray[Any], right: NDArray[Any], length: int = 1) -> str | None:
    return difference(actual, right, tolerance(right.dtype.name, length, right))


@settings(deadline=None, max_examples=50)
@given(seed=seeds, length=lengths, parts=st.integers(2, 64))
def test_reassociated_sums_are_right(seed: int, length: int, parts: int) -> None:
    terms = terms_of(seed, length)
    right = in_order(terms)
    lanes = [in_order(terms[:, lane::parts]) for lane in range(min(parts, length))]
    exact = terms.astype("float64").sum(axis=1).astype("float32")

    assert check(in_order(terms[:, ::-1]), right, length) is None
    assert check(in_order(np.stack(lanes, axis=1)), right, length) is None
    assert check(exact, right, length) is None


@settings(deadline=None, max_examples=50)
@given(seed=seeds, length=lengths, data=st.data())
def test_one_missing_term_is_wrong(seed: int, length: int, data: st.DataObject) -> None:
    terms = terms_of(seed, length)
    missing = data.draw(st.integers(0, length - 1))

    assert check(in_order(np.delete(terms, missing, axis=1)), in_order(terms), length) is not None


@settings(deadline=None, max_examples=20)
@given(seed=seeds, length=lengths)
def test_half_precision_forgives_rounding_and_not_everything(seed: int, length: int) -> None:
    terms = terms_of(seed, length, "float16")
    right = in_order(terms)

    assert check(in_order(terms[:, ::-1]), right, length) is None
    assert check(np.zeros_like(right), right, length) is not None
    assert check(np.negative(right), right, length) is not None


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_longer_sum_is_allowed_more(dtype: str) -> None:
    right = np.ones(4, dtype)

    short, long = (tolerance(dtype, length, right).absolute for length in (1, 100))

    assert long == pytest.approx(10 * short)


def test_the_message_says_how_many_where_and_by_how_much() -> None:
    right = np.arange(12, dtype="float32").reshape(3, 4)
    actual = right.copy()
    actual[1, 2], actual[2, 3] = -5.0, np.nan

    assert check(actual, right) == (
        "2 of 12 elements are wrong, 1 never written; first at [1, 2]: -5 instead of 6"
    )


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "bool"])
def test_integers_are_exact(dtype: str) -> None:
    right = np.ones(5, dtype)
    wrong = right.copy()
    wrong[4] = 0

    assert check(right.copy(), right, 10_000) is None
    assert "1 of 5" in str(check(wrong, right, 10_000))


def test_integers_are_exact_beyond_the_digits_of_a_float() -> None:
    right = np.array([2**53, 2**62], "int64")

    assert check(right.copy(), right) is None
    assert check(right + 1, right) is not None


def test_not_a_number_is_right_where_the_operator_says_so() -> None:
    right = np.array([1.0, np.nan, 2.0], "float32")

    assert check(right.copy(), right) is None
    assert "1 never written" in str(check(np.array([1, np.nan, np.nan], "float32"), right))
    assert check(np.array([1, 3, 2], "float32"), right) is not None


def test_infinity_is_matched_by_itself_alone() -> None:
    right = np.array([1.0, np.inf, -np.inf], "float32")

    assert check(right.copy(), right) is None
    for wrong in ([1, -np.inf, -np.inf], [1, 7, -np.inf], [1, np.inf, np.inf], [np.inf] * 3):
        assert check(np.array(wrong, "float32"), right) is not None, wrong


@pytest.mark.parametrize("right", [np.zeros(4, "float32"), np.full(4, np.nan, "float32")])
def test_a_reference_of_no_size_allows_no_error(right: NDArray[Any]) -> None:
    assert tolerance("float32", 100, right).absolute == 0.0
    assert check(right.copy(), right) is None
    assert check(np.ones(4, "float32"), right) is not None


def test_an_output_without_elements_is_right() -> None:
    empty = np.zeros((0, 4), "float32")

    assert difference(empty, empty, Tolerance(relative=0.0, absolute=0.0)) is None
