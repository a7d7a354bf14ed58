from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor, contiguous_strides, view_strides


def dense(*shape: int) -> Tensor:
    return Tape(training=True).input(*shape)


@st.composite
def permuted_and_reshaped(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, ...]]:
    """An array with its axes in some order, and another shape of as many elements."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=5))
    array = np.zeros(shape, dtype=np.int8).transpose(draw(st.permutations(range(len(shape)))))
    left, wanted = array.size, []
    while left > 1:
        size = draw(st.sampled_from([each for each in range(1, left + 1) if left % each == 0]))
        wanted.append(size)
        left //= size
        if len(wanted) == 5:
            wanted[-1] *= left
            break
    return array, tuple(wanted) or (1,)


@settings(max_examples=100, deadline=None)
@given(permuted_and_reshaped())
def test_a_view_is_possible_where_numpy_makes_no_copy(
    case: tuple[np.ndarray, tuple[int, ...]],
) -> None:
    array, wanted = case
    if math.prod(wanted) != array.size:
        return
    strides = view_strides(array.shape, array.strides, wanted)
    reshaped = array.reshape(wanted)

    assert (strides is not None) == np.shares_memory(reshaped, array)
    if strides is not None:
        kept = [i for i, size in enumerate(wanted) if size > 1]
        assert [strides[i] for i in kept] == [reshaped.strides[i] for i in kept]


@pytest.mark.parametrize(("batch", "is_view"), [(1, True), (2, False)])
def test_heads_of_a_batch_are_no_view(batch: int, is_view: bool) -> None:
    x = dense(batch, 8, 6)
    heads = x.viewed(batch, 8, 3, 2)
    assert heads is not None
    permuted = heads.permuted(0, 2, 1, 3)
    assert not permuted.is_contiguous
    assert (permuted.viewed(batch * 3, 8, 2) is not None) == is_view


def test_the_gradient_of_heads_is_copied_and_that_of_transposed_heads_is_not() -> None:
    x = dense(2, 8, 6)
    heads = x.viewed(2, 8, 3, 2)
    assert heads is not None
    heads = heads.permuted(0, 2, 1, 3)
    # (batch, heads, tokens, size) to (batch, tokens, heads * size): heads lie apart.
    assert heads.gradient_is_copied
    assert not heads.gradient_is_transposed
    # (batch, heads, size, tokens): heads and sizes lie as one, with a stride.
    assert not heads.permuted(0, 1, 3, 2).gradient_is_copied
    assert not x.gradient_is_copied


def test_contiguous_strides() -> None:
    assert contiguous_strides((2, 3, 4)) == (12, 4, 1)
    assert contiguous_strides(()) == ()
