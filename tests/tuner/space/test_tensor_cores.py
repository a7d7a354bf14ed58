"""Half-precision products have sketches for tensor cores, whose launches the arrays know."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm

from benchmarks.h100 import H100, H100_TARGET_JSON
from benchmarks.launches import Launch, launches_of
from tests.tuner import cuda_operators, operators
from tests.tuner.cuda_operators import cuda_task
from tune_farm.tuner.predictor.gpu_law import gpu_seconds
from tune_farm.tuner.predictor.gpu_laws import GpuLaws, gpu_tiles
from tune_farm.tuner.space.design import DesignSpace
from tune_farm.tuner.space.tensor_cores import groups_for, with_padded_rows
from tune_farm.tuner.space.traces import replay
from tune_farm.tuner.types import Task

CHECKED = 2  # of each sketch
OPERATORS: dict[str, Callable[[], Any]] = {
    "float16": cuda_operators.half_product,
    "bfloat16": functools.partial(cuda_operators.half_product, "bfloat16"),
    "convolution": cuda_operators.half_convolution,
}


@functools.cache
def space_of(name: str) -> DesignSpace:
    return DesignSpace(cuda_task(OPERATORS[name]()), seed=1)


def task_of(name: str) -> Task:
    return cuda_task(OPERATORS[name]())


def on(target: dict[str, Any]) -> Any:
    return tvm.target.Target(json.loads(H100_TARGET_JSON) | target)


@pytest.mark.parametrize("name", OPERATORS)
def test_they_stand_beside_the_ordinary_sketches(name: str) -> None:
    plots = space_of(name).plots

    assert sum(plot.tensor is not None for plot in plots) == 2  # operands as they lie, or not
    assert sum(plot.kernels is not None for plot in plots) >= 2


@pytest.mark.parametrize("name", OPERATORS)
def test_what_fits_is_accepted_and_launched_as_the_arrays_say(name: str) -> None:
    space, laws = space_of(name), GpuLaws(H100)
    module = tvm.ir.load_json(task_of(name).module_json)
    for index, plot in enumerate(space.plots):
        if plot.tensor is None:
            continue
        genes = plot.sketch.draw(2000, np.random.default_rng(index))
        for row in genes[laws.fits(plot, genes)][:CHECKED]:
            candidate = space.realize(index, row)
            assert candidate is not None
            found = space.locate(candidate)
            assert found is not None
            assert found[0] == index
            assert (found[1] == row).all()

            launched = launches_of(
                replay(module, candidate.trace_json).mod, tvm.target.Target(H100_TARGET_JSON)
            )

            (tiles,) = gpu_tiles(plot, row[None]) or ()
            assert launched == [
                Launch(
                    blocks=int(tiles.blocks[0]),
                    threads=int(tiles.threads[0]),
                    shared_bytes=int(tiles.shared_bytes[0]),
                )
            ]


@pytest.mark.parametrize(
    ("function", "target", "groups"),
    [
        (cuda_operators.half_product, {}, 2),
        (cuda_operators.half_product, {"arch": "sm_80"}, 2),
        (cuda_operators.half_product, {"arch": "sm_75"}, 0),
        (operators.matmul, {}, 0),
        # Sums of 16 bits would be kept in 16 bits.
        (functools.partial(cuda_operators.half_product, sums="float16"), {}, 0),
    ],
    ids=["float16", "A100", "Turing", "float32", "short sums"],
)
def test_they_need_the_device_and_the_types(
    function: Callable[[], Any], target: dict[str, Any], groups: int
) -> None:
    assert len(groups_for(operators.module_of(function()), on(target))) == groups


def test_shared_memory_keeps_to_the_device() -> None:
    plot = next(plot for plot in space_of("convolution").plots if plot.tensor is not None)
    genes = plot.sketch.draw(2000, np.random.default_rng(0))
    small = replace(H100, max_block_shared_bytes=16 << 10)

    kept, all_kept = GpuLaws(small).fits(plot, genes), GpuLaws(H100).fits(plot, genes)
    (tiles,) = gpu_tiles(plot, genes) or ()

    assert 0 < kept.sum() < all_kept.sum()
    assert (tiles.shared_bytes[kept] <= 16 << 10).all()
    assert not kept[~all_kept].any()


@pytest.mark.parametrize("name", OPERATORS)
def test_the_law_knows_their_peak(name: str) -> None:
    points = {"convolution": 14 * 14 * 32 * 9 * 32}.get(name, 3 * 40 * 64 * 72)
    rate = H100.sms * H100.clock_hertz * 2
    best: dict[bool, float] = {}
    for plot in space_of(name).plots:
        genes = plot.sketch.draw(2000, np.random.default_rng(2))
        laws = GpuLaws(H100, law=gpu_seconds)
        genes = genes[laws.fits(plot, genes)]
        on_tensor_cores = plot.tensor is not None
        seconds, features = laws.look(plot, genes) or (np.zeros(0), np.zeros(0))

        assert np.isfinite(features).all()
        for tiles in gpu_tiles(plot, genes) or ():
            assert tiles.on_tensor_cores == on_tensor_cores
            if on_tensor_cores:  # no less than the operator's, padding included
                assert (tiles.blocks * tiles.flops >= 2 * points).all()
        peak = H100.multiply_adds(on_tensor_cores=on_tensor_cores)
        assert (seconds >= 2 * points / (rate * peak)).all()
        best[on_tensor_cores] = min(float(seconds.min()), best.get(on_tensor_cores, np.inf))

    assert best[True] < 1.5 * best[False]  # small operators: as fast, at the least


def test_padding_is_added_once() -> None:
    plot = next(plot for plot in space_of("bfloat16").plots if plot.tensor is not None)
    text = plot.sketch.trace_json(np.zeros(len(plot.sketch.decisions), dtype=np.int64))

    assert text.count("StorageAlign") == 2  # which TVM leaves out for bfloat16
    assert with_padded_rows(text) == text


REGISTERED = """
import json, sys
import tvm
from tvm.s_tir import TensorIntrin
from tune_farm.tuner.space.intrinsics import load_intrinsics, register_intrinsics
target = tvm.target.Target(sys.argv[1])
load_intrinsics(target)
register_intrinsics(["wmma_sync_16x16x16_bf16bf16f32"])
from tvm.s_tir.tensor_intrin import cuda
cuda.get_wmma_intrin_group("shared.dyn", "shared.dyn", "float16", "float32", False)
names = (
    "wmma_sync_16x16x16_bf16bf16f32", "wmma_sync_16x16x16_f16f16f32", "wmma_sync_16x16x16_s8s8s32"
)
print(json.dumps([TensorIntrin.get(name, allow_missing=True) is not None for name in names]))
"""


def test_what_is_asked_for_is_registered_and_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REGISTERED, H100_TARGET_JSON],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True, True, False]
