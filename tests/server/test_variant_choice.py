"""Convolutions get Winograd variants where these may win, each operator a task of its own."""

from __future__ import annotations

import pytest
import tvm

from tests.sharding.winograd.networks import network
from tune_farm.client.devices.cpu_core import cpu_core
from tune_farm.server.variant_choice import Found, find_variants
from tune_farm.sharding.extract import extract
from tune_farm.sharding.layout import Layout
from tune_farm.sharding.lower import LoweredModel, lower
from tune_farm.sharding.winograd.rewrite import rewrite
from tune_farm.tuner.types import Task

TARGET = tvm.target.Target({"kind": "llvm", "num-cores": 1})


@pytest.fixture(scope="module")
def lowered() -> LoweredModel:
    """Two calls of a convolution with much to save."""
    loaded = network((1, 64, 28, 28), filters=64, pads=[1, 1, 1, 1], times=2)
    return lower(loaded, TARGET, Layout.PACKED)


@pytest.fixture(scope="module")
def tasks(lowered: LoweredModel) -> tuple[Task, ...]:
    return extract(lowered, TARGET).tasks


@pytest.fixture(scope="module")
def found(lowered: LoweredModel, tasks: tuple[Task, ...]) -> Found:
    return find_variants(lowered, tasks, TARGET, cpu=cpu_core(1))


def test_the_operator_as_lowered_comes_first(found: Found, tasks: tuple[Task, ...]) -> None:
    (alternatives,) = found.alternatives
    direct, *others = alternatives.variants

    (task_id,) = direct.tasks
    assert task_id in {task.id for task in tasks if task.name.startswith("conv2d")}
    assert "winograd 4x4" in [variant.name for variant in others]


def test_each_variant_has_the_tasks_of_the_model_that_it_makes(
    found: Found, lowered: LoweredModel
) -> None:
    (alternatives,) = found.alternatives
    added = {task.id: task for task in found.tasks}
    for variant in alternatives.variants[1:]:
        assert variant.tile is not None
        rewritten = rewrite(lowered, dict.fromkeys(alternatives.functions, variant.tile))
        tasks = {task.id: task for task in extract(rewritten, TARGET).tasks}
        for task_id in variant.tasks:
            assert tasks[task_id].arguments == added[task_id].arguments
            assert tasks[task_id].weight == added[task_id].weight == 2


def test_tasks_that_are_not_tuned_have_no_variants(
    lowered: LoweredModel, tasks: tuple[Task, ...]
) -> None:
    others = [task for task in tasks if not task.name.startswith("conv2d")]

    assert find_variants(lowered, others, TARGET, cpu=cpu_core(1)) == Found()


def test_what_can_only_lose_is_not_tried() -> None:
    # One tile: more weights to read than there is work to save.
    loaded = network((1, 512, 2, 2), filters=512, pads=[1, 1, 1, 1])
    small = lower(loaded, TARGET, Layout.PACKED)

    found = find_variants(small, extract(small, TARGET).tasks, TARGET, cpu=cpu_core(1))

    names = [v.name for alternatives in found.alternatives for v in alternatives.variants]
    assert "winograd 4x4" not in names
