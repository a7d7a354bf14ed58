"""Which loops TVM makes vectors is predicted as TVM does it: every draft is compared."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import tvm

from tests.sharding.winograd.networks import network
from tests.tuner import operators
from tests.tuner.operators import task_of
from tests.tuner.predictor.machines import CPU
from tune_farm.sharding.extract import extract
from tune_farm.sharding.layout import Layout
from tune_farm.sharding.lower import lower
from tune_farm.tuner.predictor.loop_body import loop_body
from tune_farm.tuner.space.design import DesignSpace
from tune_farm.tuner.space.traces import replay
from tune_farm.tuner.types import Task

DRAFTS = 24


def pointwise() -> Task:
    """A packed 1x1 convolution: its weight has loops of one iteration behind the lanes."""
    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    model = lower(network((1, 64, 8, 8), filters=64, kernel=1), target, Layout.PACKED)
    return next(task for task in extract(model, target).tasks if task.kind == "conv2d")


def product() -> Task:
    return task_of(operators.matmul(64, 64, 64))


@pytest.mark.parametrize(("make", "some_are_vectors"), [(product, True), (pointwise, False)])
def test_vectors_are_those_of_tvm(make: Callable[[], Task], some_are_vectors: bool) -> None:
    task = make()
    space, rng = DesignSpace(task, seed=1), np.random.default_rng(1)
    module, vectors = tvm.ir.load_json(task.module_json), 0
    for index, plot in enumerate(space.plots):
        assert plot.nest is not None
        genes = plot.sketch.draw(DRAFTS, rng)
        predicted = loop_body(plot.nest, genes, CPU).by_compiler == 0
        for row, draft in enumerate(genes):
            candidate = space.realize(index, draft)
            if candidate is None:
                continue
            scheduled = replay(module, candidate.trace_json).mod
            assert is_vector(scheduled) == predicted[row], json.loads(candidate.trace_json)[1]
            vectors += bool(predicted[row])
    assert (vectors > 0) == some_are_vectors


def is_vector(module: tvm.IRModule) -> bool:
    """Whether the loop directly around the accumulation is a vector."""
    above, _, _ = module.script().partition('_update"')
    return "vectorized" in [line for line in above.splitlines() if "for " in line][-1]
