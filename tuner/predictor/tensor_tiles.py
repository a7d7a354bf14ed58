"""What the GPU law sees of drafts for tensor cores: tiles of fragments, not of loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.gpu_tiles import GpuTiles
from tune_farm.tuner.predictor.shared_memory import merged_bytes
from tune_farm.tuner.space.decisions import Choice, Tiling
from tune_farm.tuner.space.sketch import Genes, Sketch
from tune_farm.tuner.space.tensor_kernel import Operand, TensorKernel

Floats = NDArray[np.float64]

#: Rows, columns and depth of a fragment.
FRAGMENT = 16
_WARP = 32
_SUM_BYTES = 4  # sums are float32
_OPERAND_BYTES = 2
#: Registers of a thread for one fragment: of sums, and of an operand.
_SUM_REGISTERS, _OPERAND_REGISTERS = 8.0, 4.0
#: Registers for addresses, indices and what is in flight from global memory.
_BASE_REGISTERS = 32.0
#: Instructions of one fragment's product: 16 x 8 x 16 each (HMMA.16816).
_PRODUCT_INSTRUCTIONS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragments:
    """Sizes in fragments; all arrays are (drafts,) float64."""

    blocks: Floats
    warps: Floats  # of a block
    rows: Floats  # of a warp's tile
    columns: Floats
    block_rows: Floats  # of a block's tile
    block_columns: Floats
    steps: Floats  # with new tiles in shared memory
    depth: Floats  # of such a tile
    at_once: Floats  # of the depth, as far as a warp holds operands of it at a time
    unrolled: Floats  # statements up to which TVM unrolls loops; 0 where it does not


def fragments_of(kernel: TensorKernel, sketch: Sketch, genes: Genes) -> Fragments:
    """Look at drafts of one sketch: (drafts, decisions) int64."""
    rows, columns, sums = (
        _table(sketch, genes, decision) for decision in (kernel.rows, kernel.columns, kernel.sums)
    )
    none = np.zeros(len(genes))
    return Fragments(
        blocks=kernel.products * (rows[:, :2] * columns[:, :2]).prod(axis=1),
        warps=rows[:, 2] * columns[:, 2],
        rows=rows[:, 3:].prod(axis=1),
        columns=columns[:, 3:].prod(axis=1),
        block_rows=rows[:, 2:].prod(axis=1),
        block_columns=columns[:, 2:].prod(axis=1),
        steps=sums[:, 0],
        depth=sums[:, 1:].prod(axis=1),
        at_once=sums[:, 2],
        unrolled=none if kernel.unroll is None else chosen(sketch, genes, kernel.unroll),
    )


def tensor_tiles(kernel: TensorKernel, sketch: Sketch, genes: Genes) -> GpuTiles:
    """Look at drafts of one sketch: (drafts, decisions) int64."""
    sizes = fragments_of(kernel, sketch, genes)
    threads = sizes.warps * _WARP
    sums = sizes.rows * sizes.columns
    all_sums = sizes.block_rows * sizes.block_columns  # of a block
    deep = sizes.steps * sizes.depth
    points = all_sums * FRAGMENT**2
    visits = [_visit(each, sketch, genes, sizes) for each in kernel.operands]
    fetched = sum((sizes.steps * loads for loads, _ in visits), np.zeros(len(genes)))
    bytes_each = sum((sizes.steps * loads * width for loads, width in visits), np.zeros(len(genes)))
    operand_reads = deep * sizes.warps * (sizes.rows + sizes.columns)  # fragments
    tiles = [_elements(each, sizes) * _OPERAND_BYTES for each in kernel.operands]
    return GpuTiles(
        blocks=sizes.blocks,
        threads=threads,
        registers=_registers(sizes),
        shared_bytes=_shared_bytes(kernel, sizes),
        flops=2.0 * points * FRAGMENT * deep,
        accumulators=_PRODUCT_INSTRUCTIONS * sums,
        global_bytes=sizes.steps * (tiles[0] + tiles[1]) + _out_bytes(kernel, points),
        unique_bytes=_unique_bytes(kernel) + np.zeros(len(genes)),
        shared_traffic_bytes=sizes.steps * (tiles[0] + tiles[1])
        + operand_reads * FRAGMENT**2 * _OPERAND_BYTES
        + 2.0 * _SUM_BYTES * points,
        loads=fetched + operand_reads / sizes.warps + points / threads,
        vector_bytes=bytes_each / fetched,
        code=_code(kernel, sketch, genes, sizes),
        on_tensor_cores=True,
    )


def sum_bytes(sizes: Fragments) -> Floats:
    """Shared memory of a fixed size, where a row of each warp's sums is staged, (drafts,)."""
    return sizes.warps * sizes.columns * FRAGMENT**2 * _SUM_BYTES


def product_statements(sizes: Fragments) -> Floats:
    """Products of fragments in a warp's innermost body, (drafts,) float64."""
    return sizes.rows * sizes.columns * sizes.at_once


def tiling_of(decision: int, sketch: Sketch) -> Tiling:
    """A decision that is a tiling."""
    tiling = sketch.decisions[decision]
    assert isinstance(tiling, Tiling), tiling
    return tiling


def _table(sketch: Sketch, genes: Genes, decision: int) -> Floats:
    table = tiling_of(decision, sketch).table
    return np.asarray(table[genes[:, decision]], dtype=np.float64)


def chosen(sketch: Sketch, genes: Genes, decision: int) -> Floats:
    """The number that a choice stands for, (drafts,) float64."""
    choice = sketch.decisions[decision]
    assert isinstance(choice, Choice), choice
    return np.array(choice.options, dtype=np.float64)[genes[:, decision]]


def _registers(sizes: Fragments) -> Floats:
    operands = sizes.at_once * (sizes.rows + sizes.columns)
    return np.asarray(
        _BASE_REGISTERS
        + _SUM_REGISTERS * sizes.rows * sizes.columns
        + _OPERAND_REGISTERS * operands
    )


def _tile(operand: Operand, sizes: Fragments) -> tuple[Floats, Floats]:
    """Rows and elements of a row of an operand's tile in shared memory."""
    across = FRAGMENT * (sizes.block_rows if operand.by_rows else sizes.block_columns)
    along = FRAGMENT * sizes.depth
    return (across, along) if operand.sum_is_last else (along, across)


def _elements(operand: Operand, sizes: Fragments) -> Floats:
    rows, row = _tile(operand, sizes)
    return rows * row


def _shared_bytes(kernel: TensorKernel, sizes: Fragments) -> Floats:
    operands = []
    for operand in kernel.operands:
        rows, row = _tile(operand, sizes)
        if operand.alignment is not None:
            factor, offset = operand.alignment
            row = row + (factor + offset - row % factor) % factor
        operands.append(rows * row * _OPERAND_BYTES)
    return sum_bytes(sizes) + merged_bytes(operands, len(sizes.blocks))


def _visit(
    operand: Operand, sketch: Sketch, genes: Genes, sizes: Fragments
) -> tuple[Floats, Floats]:
    """Load instructions of a thread for one tile of an operand, and bytes of each."""
    asked = chosen(sketch, genes, operand.fetch)
    vector = asked if operand.is_vector else np.ones(len(genes))
    loads = np.ceil(_elements(operand, sizes) / (sizes.warps * _WARP * asked)) * (asked / vector)
    return loads, vector * _OPERAND_BYTES


def _out_bytes(kernel: TensorKernel, points: Floats) -> Floats:
    """Bytes of global memory that a block reads and writes with its sums."""
    total = np.zeros(len(points))
    for access in kernel.out.accesses:
        if access.scope == "global":
            size = float(np.prod(access.shape, dtype=np.float64))
            total += access.element_bytes * np.minimum(points, size)
    return total


def _unique_bytes(kernel: TensorKernel) -> float:
    sizes = {
        each.buffer: each.element_bytes * float(np.prod(each.shape, dtype=np.float64))
        for each in kernel.globals
    }
    return sum(sizes.values())


def body(kernel: TensorKernel, sketch: Sketch, genes: Genes) -> tuple[Floats, Floats]:
    """Statements of one step as TVM leaves them, and whether its loops are all unrolled.

    Loops are unrolled from the innermost outwards; where one is left, so are those around it.

    Returns:
        (drafts,) float64 each, the second 0 or 1.
    """
    sizes = fragments_of(kernel, sketch, genes)
    limit = sizes.unrolled
    parts = (sizes.rows * sizes.at_once, sizes.columns * sizes.at_once, product_statements(sizes))
    goes_on = np.ones(len(limit), dtype=bool)
    inner = np.zeros(len(limit))
    for part in parts:
        goes_on &= part <= limit
        inner += np.where(part <= limit, part, 1.0)
    rounds = sizes.depth / sizes.at_once
    goes_on &= inner * rounds <= limit
    statements = np.where(goes_on, inner * rounds, inner)
    for operand in kernel.operands:
        loads, _ = _visit(operand, sketch, genes, sizes)
        goes_on &= loads <= limit
        statements = statements + np.where(loads <= limit, loads, 1.0)
    return statements, goes_on.astype(np.float64)


def _code(kernel: TensorKernel, sketch: Sketch, genes: Genes, sizes: Fragments) -> Floats:
    """Statements of a warp's work as the source has them."""
    limit = sizes.unrolled
    statements, _ = body(kernel, sketch, genes)
    for operand in kernel.operands:
        if not operand.is_whole:  # what may lie outside is loaded element by element
            loads, width = _visit(operand, sketch, genes, sizes)
            more = loads * (width / _OPERAND_BYTES - 1.0)
            statements = statements + np.where(loads <= limit, more, 0.0)
    asked = chosen(sketch, genes, kernel.out_fetch)
    visit = sizes.columns * FRAGMENT**2 / (_WARP * asked)  # by all warps, of one row of fragments
    out = np.where(visit <= limit, visit, 1.0)
    return statements + np.where(out * sizes.rows <= limit, out * sizes.rows, out)
