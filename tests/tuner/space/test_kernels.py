"""What the arrays say of a GPU's sketches is what TVM launches in the end."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import pytest
import tvm

from benchmarks.h100 import H100
from benchmarks.launches import Launch, launches_of
from tests.tuner import cuda_operators
from tests.tuner.cuda_operators import cuda_task
from tune_farm.tuner.predictor.cuda_tiles import cuda_tiles
from tune_farm.tuner.predictor.gpu_limits import gpu_fits
from tune_farm.tuner.space.design import DesignSpace, Plot
from tune_farm.tuner.space.kernel_replay import kernels_of
from tune_farm.tuner.space.sketch import Genes, Sketch
from tune_farm.tuner.space.traces import replay, with_dynamic_shared_memory
from tune_farm.tuner.types import Candidate, Task

DRAWN = 4000
CHECKED = 2  # of each sketch


@functools.cache
def space_of(function: Any) -> DesignSpace:
    return DesignSpace(cuda_task(function()), seed=1)


def fitting(plot: Plot, *, seed: int = 0) -> Genes:
    assert plot.kernels is not None
    genes = plot.sketch.draw(DRAWN, np.random.default_rng(seed))
    return genes[gpu_fits(plot.kernels, plot.sketch, genes, H100)]


def said(plot: Plot, genes: Genes) -> list[Launch]:
    assert plot.kernels is not None
    return [
        Launch(
            blocks=int(tiles.blocks[0]),
            threads=int(tiles.threads[0]),
            shared_bytes=int(tiles.shared_bytes[0]),
        )
        for tiles in cuda_tiles(plot.kernels, plot.sketch, genes[None])
    ]


def done(task: Task, candidate: Candidate) -> list[Launch]:
    module = replay(tvm.ir.load_json(task.module_json), candidate.trace_json).mod
    return launches_of(module, tvm.target.Target(json.loads(task.target_json)))


@pytest.mark.slow
@pytest.mark.parametrize("function", cuda_operators.ALL, ids=lambda each: each.__name__)
def test_launches_are_as_the_arrays_say(function: Any) -> None:
    space, task = space_of(function), cuda_task(function())
    assert space.plots
    for index, plot in enumerate(space.plots):
        rows = fitting(plot)[:CHECKED]
        assert len(rows)
        for row in rows:
            candidate = space.realize(index, row)
            assert candidate is not None
            assert done(task, candidate) == said(plot, row)


def test_tiles_may_fill_the_shared_memory_that_the_device_opts_in_to() -> None:
    function = cuda_operators.large_product
    space, task = space_of(function), cuda_task(function())
    plot = space.plots[0]
    rows = fitting(plot)
    large = [row for row in rows if said(plot, row)[0].shared_bytes > 48 << 10]
    assert large

    candidate = space.realize(0, large[0])

    assert candidate is not None
    assert done(task, candidate) == said(plot, large[0])


def test_a_schedule_leads_back_to_its_draft() -> None:
    space = space_of(cuda_operators.batch_product)
    row = fitting(space.plots[0])[0]
    candidate = space.realize(0, row)
    assert candidate is not None

    located = space.locate(candidate)

    assert located is not None
    assert space.realize(*located) == candidate


def test_every_block_belongs_to_one_kernel() -> None:
    plot = space_of(cuda_operators.normalization).plots[-1]

    assert plot.kernels is not None
    names = [member.block.name for kernel in plot.kernels for member in kernel.members]
    assert len(names) == len(set(names))
    assert all(kernel.anchor in kernel.members for kernel in plot.kernels)


def test_a_trace_that_is_not_followed_has_no_kernels() -> None:
    instructions = [["GetSBlock", [], ["C", "main"], ["b0"]], ["SomethingNew", ["b0"], [], []]]

    assert kernels_of(Sketch.parse(json.dumps([instructions, []]), ()), {}) is None


def test_only_copies_into_shared_memory_become_dynamic() -> None:
    instructions = [
        ["CacheRead", ["b0", ["b0"]], [0, "shared"], ["b1"]],
        ["CacheWrite", ["b0", []], [0, "local"], ["b2"]],
        ["SetScope", ["b3"], [0, "shared"], []],
    ]

    changed, decided = json.loads(with_dynamic_shared_memory(json.dumps([instructions, []])))

    assert [each[2][1] for each in changed] == ["shared.dyn", "local", "shared"]
    assert decided == []
