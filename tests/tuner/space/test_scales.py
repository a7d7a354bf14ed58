"""Decisions become numbers in which near means alike."""

from __future__ import annotations

import numpy as np

from tune_farm.tuner.space.decisions import AT_ROOT, Choice, Fixed, Location, Tiling
from tune_farm.tuner.space.scales import on_scales
from tune_farm.tuner.space.sketch import Sketch

SKETCH = Sketch(
    instructions=(),
    decisions=(
        Tiling(instruction=0, extent=8, parts=2, most_innermost=8),
        Choice(instruction=1, options=(0, 15, 63)),
        Fixed(instruction=2, drawn="as it is"),
        Location(instruction=3, locations=(AT_ROOT, 0, 1)),
    ),
)


def test_sizes_are_powers_of_two_and_what_is_fixed_is_left_out() -> None:
    genes = np.array([[0, 0, 0, 0], [3, 2, 0, 2]])

    assert on_scales(SKETCH, genes).tolist() == [[0, 3, 0, -1], [3, 0, 6, 1]]


def test_a_sketch_without_decisions_has_no_columns() -> None:
    nothing = Sketch(instructions=(), decisions=())

    assert on_scales(nothing, np.zeros((3, 0), dtype=np.int64)).shape == (3, 0)
