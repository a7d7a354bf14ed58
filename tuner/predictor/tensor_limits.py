"""Which drafts for tensor cores a GPU can launch, and a build is worth, as `gpu_limits` has it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.machine import Gpu
from tune_farm.tuner.predictor.occupancy import is_launchable, most_registers
from tune_farm.tuner.predictor.tensor_tiles import (
    body,
    chosen,
    fragments_of,
    product_statements,
    sum_bytes,
    tensor_tiles,
    tiling_of,
)
from tune_farm.tuner.space.design import MOST_STATIC_SHARED_BYTES
from tune_farm.tuner.space.sketch import Genes, Sketch
from tune_farm.tuner.space.tensor_kernel import TensorKernel

#: CUDA's limit for the grid's second dimension, which TVM's rule binds the outermost parts to.
_MOST_SECOND_BLOCKS = 65_535
#: Statements of an unrolled body, each a matrix instruction or a vector load.
_MOST_CODE = 512
#: Elements of a vector load whose indices TVM refuses, where they are not side by side.
_TOO_WIDE = 8
#: TVM unrolls the loop over steps where it has at most so many statements, with head-room for those
#: that are not counted here: each step would get shared memory of its own.
_HEAD_ROOM = 1.5
#: Products that the device's compiler unrolls by itself.
_UNROLLED_ANYWAY = 64


def tensor_fits(kernel: TensorKernel, sketch: Sketch, genes: Genes, gpu: Gpu) -> NDArray[np.bool_]:
    """Whether drafts keep to the limits of the device and of a sane build, (drafts,) bool."""
    sizes = fragments_of(kernel, sketch, genes)
    tiles = tensor_tiles(kernel, sketch, genes)
    second = np.full(len(genes), float(kernel.products))
    for decision in (kernel.rows, kernel.columns):
        second *= tiling_of(decision, sketch).table[genes[:, decision], 0]
    accepted = np.ones(len(genes), dtype=bool)
    for operand in kernel.operands:
        if not operand.is_vector:
            accepted &= chosen(sketch, genes, operand.fetch) < _TOO_WIDE
    if kernel.is_ragged:
        # One block of all rows: TVM can't tell then that they cover the output.
        accepted &= sizes.block_rows < tiling_of(kernel.rows, sketch).extent
    statements, is_unrolled = body(kernel, sketch, genes)
    whole = statements * sizes.steps <= _HEAD_ROOM * sizes.unrolled
    accepted &= (sizes.steps == 1) | ~whole | (is_unrolled == 0)
    # Sums that an index chooses among can't be in registers: all products must be unrolled.
    limit = np.maximum(_UNROLLED_ANYWAY, sizes.unrolled)
    return np.asarray(
        accepted
        & is_launchable(tiles, gpu)
        & (tiles.registers <= most_registers(tiles, gpu))
        & (sum_bytes(sizes) <= MOST_STATIC_SHARED_BYTES)
        & (second <= _MOST_SECOND_BLOCKS)
        & (product_statements(sizes) <= limit)
        & (tiles.code <= _MOST_CODE)
    )
