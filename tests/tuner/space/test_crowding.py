"""Rows that are a power of two apart fall on few sets of a cache."""

from __future__ import annotations

import numpy as np
import pytest

from tune_farm.tuner.space.anatomy import Access
from tune_farm.tuner.space.footprint import lines_of

SETS = 64


@pytest.mark.parametrize(
    ("channels", "pixels", "depth", "expected"),
    [
        (512, 7, 16, 32.0),  # 32 lines apart, one line each: 2 of 64 sets
        (512, 7, 32, 16.0),  # two lines each
        (512, 1, 16, 64.0),  # a single line falls on one set
        (528, 7, 16, 1.0),  # 33 lines apart: all sets in turn
        (512, 7, 512, 1.0),  # whole rows are one run
        (500, 7, 16, 1.0),  # rows that no line divides spread
    ],
)
def test_pixels_of_many_channels_crowd(
    channels: int, pixels: int, depth: int, expected: float
) -> None:
    access = Access(
        buffer="data",
        scope="global",
        element_bytes=4,
        shape=(1, 14, channels),
        terms=((), ((0, 1),), ((1, 1),)),
        is_write=False,
    )

    assert lines_of(access, np.array([[pixels, depth]])).crowding(SETS) == [expected]
