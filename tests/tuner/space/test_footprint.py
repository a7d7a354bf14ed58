"""The closed form counts the elements that a walk over the loops touches."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tune_farm.tuner.space.anatomy import Access
from tune_farm.tuner.space.footprint import elements

#: A 3x3 window with a stride of 1, as a convolution reads: [c, y + dy, x + dx].
WINDOW = Access(
    buffer="data",
    scope="global",
    element_bytes=4,
    shape=(8, 12, 12),
    terms=(((0, 1),), ((1, 1), (3, 1)), ((2, 1), (4, 1))),
    is_write=False,
)


@given(
    covered=st.tuples(
        *(st.integers(1, n) for n in (8, 10, 10, 3, 3)),
    )
)
def test_overlapping_windows_are_counted_once(covered: tuple[int, ...]) -> None:
    walked = {
        (c, y + dy, x + dx)
        for c, y, x, dy, dx in itertools.product(*(range(extent) for extent in covered))
    }

    assert elements(WINDOW, np.array([covered])) == [len(walked)]


def test_no_more_than_the_buffer_holds() -> None:
    assert elements(WINDOW, np.array([[8, 12, 12, 3, 3]])) == [8 * 12 * 12]


def test_what_an_axis_does_not_move_is_touched_once() -> None:
    assert elements(WINDOW, np.array([[1, 1, 1, 1, 1]])) == [1]


#: A convolution in groups of 16 outputs and 8 inputs: it reads [(o // 16) * 8 + i].
GROUPED = Access(
    buffer="data",
    scope="global",
    element_bytes=4,
    shape=(32,),
    terms=(((0, 0), (1, 1)),),
    is_write=False,
    stairs=(((0, 8, 16),),),
)


@given(outputs=st.integers(1, 64), inputs=st.integers(1, 8))
def test_stairs_are_climbed_once_a_group(outputs: int, inputs: int) -> None:
    walked = {(o // 16) * 8 + i for o in range(outputs) for i in range(inputs)}

    assert elements(GROUPED, np.array([[outputs, inputs]])) == [max(walked) - min(walked) + 1]
