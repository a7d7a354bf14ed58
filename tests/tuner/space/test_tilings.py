"""A tile decision's domain is all ordered products, as TVM would draw them."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tune_farm.tuner.space.tilings import divisors, tilings


@given(extent=st.integers(1, 400), parts=st.integers(1, 4), most=st.sampled_from([1, 4, 64]))
def test_each_row_is_a_product_within_the_bound_and_none_is_missing(
    extent: int, parts: int, most: int
) -> None:
    rows = [tuple(int(factor) for factor in row) for row in tilings(extent, parts, most)]

    if parts == 1:
        assert rows == [(extent,)]
        return
    expected = {
        row
        for row in itertools.product(divisors(extent), repeat=parts)
        if math.prod(row) == extent and row[-1] <= most
    }
    assert set(rows) == expected
    assert len(rows) == len(expected)
    assert rows == sorted(rows)


def test_the_table_is_shared_and_cannot_be_written() -> None:
    table = tilings(12, 2, 64)

    assert table is tilings(12, 2, 64)
    with pytest.raises(ValueError, match="read-only"):
        table[0, 0] = 5


@given(st.integers(1, 10_000))
def test_divisors(number: int) -> None:
    found = divisors(number)

    assert all(number % each == 0 for each in found)
    assert (found[0], found[-1]) == (1, number)
    assert list(found) == sorted(set(found))
