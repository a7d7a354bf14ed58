"""A trace survives as text: what is replayed from it is the same schedule."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import tvm

from tests.tuner import operators
from tests.tuner.operators import parallel, split, task_of
from tune_farm.tuner.space.intrinsics import load_intrinsics
from tune_farm.tuner.space.traces import replay, trace_to_json
from tune_farm.tuner.types import Candidate, Task


@pytest.fixture(scope="module")
def task() -> Task:
    return task_of(operators.matmul())


@pytest.mark.parametrize("make", [parallel, lambda task: split(task, 4)], ids=["parallel", "split"])
def test_text_to_schedule_and_back(task: Task, make: Callable[[Task], Candidate]) -> None:
    text = make(task).trace_json

    schedule = replay(tvm.ir.load_json(task.module_json), text)

    assert trace_to_json(schedule.trace) == text


def test_sampled_schedules_survive_with_their_decisions(task: Task) -> None:
    from tvm.s_tir.meta_schedule import TuneContext

    module = tvm.ir.load_json(task.module_json)
    target = tvm.target.Target(task.target_json)
    load_intrinsics(target)
    context = TuneContext(module, target=target, space_generator="post-order-apply", rand_state=3)

    for schedule in context.generate_design_space():
        text = trace_to_json(schedule.trace)
        again = replay(module, text)

        assert json.loads(text)[1], "nothing was decided"
        assert trace_to_json(again.trace) == text
        tvm.ir.assert_structural_equal(again.mod, schedule.mod)


def test_replaying_leaves_the_module_alone(task: Task) -> None:
    module = tvm.ir.load_json(task.module_json)

    replay(module, split(task, 4).trace_json)

    tvm.ir.assert_structural_equal(module, tvm.ir.load_json(task.module_json))


def test_a_trace_of_another_operator_does_not_fit() -> None:
    module: Any = operators.module_of(operators.softmax())

    with pytest.raises(RuntimeError, match="C"):
        replay(module, split(task_of(operators.matmul()), 4).trace_json)
