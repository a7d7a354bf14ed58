"""What passes the limits can be launched; a smaller device passes less."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.h100 import H100
from tests.tuner import cuda_operators, operators
from tests.tuner.cuda_operators import cuda_task
from tune_farm.tuner.predictor.cuda_target import cuda_target
from tune_farm.tuner.predictor.cuda_tiles import cuda_tiles
from tune_farm.tuner.predictor.gpu_limits import gpu_fits
from tune_farm.tuner.predictor.tile import TilePredictor
from tune_farm.tuner.space.design import DesignSpace, Plot

SEEDS = st.integers(0, 2**32 - 1)
OPERATORS = (operators.matmul, cuda_operators.strided_convolution, cuda_operators.normalization)
SMALL = replace(
    H100, max_block_threads=256, max_block_shared_bytes=16 << 10, max_thread_registers=64
)


@functools.cache
def plots() -> list[Plot]:
    return [
        plot for function in OPERATORS for plot in DesignSpace(cuda_task(function()), seed=1).plots
    ]


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS, place=st.integers(0, 99))
def test_what_passes_keeps_to_every_limit(seed: int, place: int) -> None:
    plot = plots()[place % len(plots())]
    assert plot.kernels is not None
    genes = plot.sketch.draw(500, np.random.default_rng(seed))

    passed = genes[gpu_fits(plot.kernels, plot.sketch, genes, SMALL)]

    for kernel, tiles in zip(
        plot.kernels, cuda_tiles(plot.kernels, plot.sketch, passed), strict=True
    ):
        assert (tiles.threads <= SMALL.max_block_threads).all()
        assert (tiles.threads >= kernel.fewest_threads).all()
        assert (tiles.shared_bytes <= SMALL.max_block_shared_bytes).all()
        assert (tiles.accumulators < SMALL.max_thread_registers).all()
        assert (tiles.accumulators * tiles.threads < SMALL.registers).all()


@settings(deadline=None, max_examples=15)
@given(seed=SEEDS, place=st.integers(0, 99))
def test_a_smaller_device_passes_nothing_that_a_larger_one_refuses(seed: int, place: int) -> None:
    plot = plots()[place % len(plots())]
    assert plot.kernels is not None
    genes = plot.sketch.draw(500, np.random.default_rng(seed))

    small = gpu_fits(plot.kernels, plot.sketch, genes, SMALL)
    large = gpu_fits(plot.kernels, plot.sketch, genes, H100)

    assert not (small & ~large).any()


@settings(deadline=None, max_examples=20)
@given(seed=SEEDS, place=st.integers(0, 99))
def test_tiles_are_finite_and_cover_the_operator(seed: int, place: int) -> None:
    plot = plots()[place % len(plots())]
    assert plot.kernels is not None
    genes = plot.sketch.draw(200, np.random.default_rng(seed))

    for kernel, tiles in zip(
        plot.kernels, cuda_tiles(plot.kernels, plot.sketch, genes), strict=True
    ):
        for name in set(tiles.__slots__) - {"on_tensor_cores"}:
            values: Any = getattr(tiles, name)
            assert values.shape == (200,), name
            assert np.isfinite(values).all(), name
            assert (values >= 0).all(), name
        points = np.prod([float(axis.extent) for axis in kernel.anchor.block.axes])
        assert (tiles.blocks * tiles.flops >= points).all()
        assert (tiles.blocks * tiles.global_bytes >= tiles.unique_bytes * 0.99).all()


def test_a_tile_of_a_matrix_product_by_hand() -> None:
    (plot, *_) = DesignSpace(cuda_task(operators.matmul(64, 64, 64)), seed=1).plots
    assert plot.kernels is not None
    # Blocks of 32x32, 8x8 threads of 4x4 each, 16 steps of the sum at a time, no virtual threads.
    wanted = [[2, 1, 8, 2, 2], [2, 1, 8, 1, 4], [4, 4, 4]]
    tilings = [place for place, each in enumerate(plot.sketch.decisions) if hasattr(each, "parts")]
    genes = np.zeros((1, len(plot.sketch.decisions)), dtype=np.int64)
    for place, value in zip(tilings, wanted, strict=True):
        table = plot.sketch.decisions[place].table  # type: ignore[union-attr]
        genes[0, place] = np.flatnonzero((table == value).all(axis=1))[0]

    (tiles,) = cuda_tiles(plot.kernels, plot.sketch, genes)

    assert tiles.blocks == 4
    assert tiles.threads == 64
    assert tiles.accumulators == 16
    assert tiles.flops == 2 * 32 * 32 * 64
    assert tiles.shared_bytes == 2 * 32 * 16 * 4
    assert tiles.global_bytes == 2 * 32 * 64 * 4 + 32 * 32 * 4
    assert tiles.unique_bytes == 3 * 64 * 64 * 4
    # Each thread reads 4 + 4 numbers a step; all that is fetched is written once.
    assert tiles.shared_traffic_bytes == 64 * 64 * 8 * 4 + 2 * 32 * 64 * 4


def test_the_predictor_holds_a_gpu_to_its_limits_without_a_law() -> None:
    plot = plots()[0]
    assert plot.kernels is not None
    genes = plot.sketch.draw(300, np.random.default_rng(0))
    predictor = TilePredictor(H100, threads=1)

    fits = predictor.fits(plot, genes)

    assert (fits == gpu_fits(plot.kernels, plot.sketch, genes, H100)).all()


@pytest.mark.parametrize(
    ("capability", "architecture"), [("8.0", "sm_80"), ("8.9", "sm_89"), ("9.0", "sm_90a")]
)
def test_a_target_has_the_limits_of_the_device(capability: str, architecture: str) -> None:
    target = cuda_target(H100, capability)

    assert target["arch"] == architecture
    assert target["max_shared_memory_per_block"] == 227 << 10
    assert json.loads(json.dumps(target)) == target
