"""Drafts become the schedules that their arrays describe; a schedule leads back to its draft."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from tests.tuner import operators
from tests.tuner.operators import task_of
from tune_farm.tuner.space.design import DesignSpace
from tune_farm.tuner.space.traces import replay
from tune_farm.tuner.types import Candidate, Task

DRAFTS = 12


@pytest.fixture(scope="module", params=[operators.matmul, operators.conv2d])
def task(request: pytest.FixtureRequest) -> Task:
    return task_of(request.param())


@pytest.fixture(scope="module")
def space(task: Task) -> DesignSpace:
    return DesignSpace(task, seed=1)


def loops_of(schedule: Any, block: str) -> list[int]:
    return [
        int(schedule.get(each).extent) for each in schedule.get_loops(schedule.get_sblock(block))
    ]


def test_the_arrays_say_what_the_schedule_does(task: Task, space: DesignSpace) -> None:
    module = tvm.ir.load_json(task.module_json)
    rng = np.random.default_rng(0)
    for plot in space.plots:
        assert plot.nest is not None
        genes = plot.sketch.draw(DRAFTS, rng)
        extents = plot.nest.extents(genes)
        for row, expected in zip(genes, extents, strict=True):
            schedule = replay(module, plot.sketch.trace_json(row))
            assert loops_of(schedule, plot.nest.block.name) == list(expected)


def test_inner_loops_cover_the_axes(space: DesignSpace) -> None:
    rng = np.random.default_rng(0)
    for plot in space.plots:
        assert plot.nest is not None
        genes = plot.sketch.draw(DRAFTS, rng)
        whole = [axis.extent for axis in plot.nest.block.axes]
        assert (plot.nest.covered(genes)[0] == whole).all()
        assert (plot.nest.covered(genes)[-1] == 1).all()


def test_nearly_all_drafts_are_accepted_and_found_again(space: DesignSpace) -> None:
    rng = np.random.default_rng(0)
    accepted, drawn = 0, 0
    for index, plot in enumerate(space.plots):
        for row in plot.sketch.draw(DRAFTS, rng):
            drawn += 1
            candidate = space.realize(index, row)
            if candidate is None:
                continue
            accepted += 1
            located = space.locate(candidate)
            assert located is not None
            again = space.realize(*located)
            assert again == candidate
    assert accepted >= 0.97 * drawn


@pytest.mark.parametrize(
    "function", [operators.softmax, operators.square_root], ids=["softmax", "elementwise"]
)
def test_operators_without_tiles_have_drafts_too(function: Any) -> None:
    space = DesignSpace(task_of(function()), seed=1)
    rng = np.random.default_rng(0)

    found = [
        space.realize(index, plot.sketch.draw(1, rng)[0]) for index, plot in enumerate(space.plots)
    ]

    assert space.size >= 1
    assert any(found)


def test_a_trace_of_another_kind_is_not_located(task: Task, space: DesignSpace) -> None:
    foreign = Candidate(task_id=task.id, trace_json='[[["GetSBlock",[],["X","main"],["b0"]]],[]]')

    assert space.locate(foreign) is None
