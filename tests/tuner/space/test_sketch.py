"""Drafts are rows of genes: drawn within bounds, varied, crossed, written as traces, read again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tune_farm.tuner.space.decisions import AT_ROOT, INLINED, Choice, Location, Tiling
from tune_farm.tuner.space.sketch import Sketch

INSTRUCTIONS = [
    ["GetSBlock", [], ["C", "main"], ["b0"]],
    ["GetLoops", ["b0"], [], ["l1"]],
    ["SamplePerfectTile", ["l1"], [2, 8], ["v2", "v3"]],
    ["Split", ["l1", "v2", "v3"], [True, False], ["l4", "l5"]],
    ["SampleCategorical", [], [[0, 16, 64], [0.3, 0.3, 0.4]], ["v6"]],
    ["SampleComputeLocation", ["b0"], [], ["l7"]],
]
LOCATIONS = (INLINED, AT_ROOT, 0, 1)
SKETCH = Sketch.parse(json.dumps([INSTRUCTIONS, [[2, [3, 4]], [4, 0], [5, -1]]]), LOCATIONS)
SEEDS = st.integers(0, 2**32 - 1)


def test_a_sketch_leaves_every_decision_open() -> None:
    assert SKETCH.decisions == (
        Tiling(instruction=2, extent=12, parts=2, most_innermost=8),
        Choice(instruction=4, options=(0, 16, 64)),
        Location(instruction=5, locations=LOCATIONS),
    )
    assert list(SKETCH.sizes) == [5, 3, 4]  # 12 = 12·1, 6·2, 4·3, 3·4, 2·6; not 1·12
    assert SKETCH.size == 60


@given(seed=SEEDS, count=st.integers(0, 50))
def test_what_is_drawn_varied_and_crossed_stays_in_bounds(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = SKETCH.draw(count, rng), SKETCH.draw(count, rng)
    untouched = first.copy()

    varied = SKETCH.vary(first, rng)
    crossed = SKETCH.cross(first, second, rng)

    assert (first == untouched).all()
    for genes in (first, varied, crossed):
        assert genes.shape == (count, 3)
        assert ((genes >= 0) & (genes < SKETCH.sizes)).all()
    assert ((varied != first).sum(axis=1) <= 1).all()
    assert ((crossed == first) | (crossed == second)).all()


@given(seed=SEEDS)
def test_a_draft_survives_as_a_trace(seed: int) -> None:
    (genes,) = SKETCH.draw(1, np.random.default_rng(seed))

    instructions, decided = json.loads(SKETCH.trace_json(genes))

    assert instructions == INSTRUCTIONS
    encoded = SKETCH.encode(dict(decided))
    assert encoded is not None
    assert (encoded == genes).all()


@pytest.mark.parametrize(
    "values",
    [
        {2: [3, 5], 4: 0, 5: 0},
        {2: [1, 12], 4: 0, 5: 0},
        {2: [3, 4], 4: 3, 5: 0},
        {2: [3, 4], 4: 0, 5: 7},
        {2: [3, 4], 4: 0},
    ],
    ids=["wrong product", "over the bound", "no such option", "no such loop", "one missing"],
)
def test_what_is_no_draft_is_not_encoded(values: dict[int, object]) -> None:
    assert SKETCH.encode(values) is None


def test_a_decision_of_an_unknown_kind_stays_as_it_was_drawn() -> None:
    unknown = ["SampleSomethingNew", ["l1"], [], ["v9"]]
    sketch = Sketch.parse(json.dumps([[*INSTRUCTIONS[:2], unknown], [[2, [3, 1]]]]), LOCATIONS)
    (genes,) = sketch.draw(1, np.random.default_rng(0))

    assert json.loads(sketch.trace_json(genes))[1] == [[2, [3, 1]]]
    assert sketch.encode({2: [3, 1]}) is not None
    assert sketch.encode({2: [1, 3]}) is None


def test_a_sketch_without_choices_has_one_draft() -> None:
    sketch = Sketch.parse(json.dumps([INSTRUCTIONS[:2], []]), LOCATIONS)
    rng = np.random.default_rng(0)

    assert sketch.size == 1
    assert sketch.draw(3, rng).shape == (3, 0)
    assert sketch.vary(sketch.draw(3, rng), rng).shape == (3, 0)
