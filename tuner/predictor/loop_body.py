"""The straight-line code in the innermost loops: its vectors, accumulators and loads.

What TVM unrolls by its annotation, and what LLVM then unrolls by itself, is one body. Accumulators
stay in registers while the reduction loops around the body run, if there are enough registers.
TVM makes the innermost loop a vector where it walks through adjacent elements of the output; where
it does not, LLVM finds a vector along them, in the body or in the loop around it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.machine import Cpu
from tune_farm.tuner.space.anatomy import Access
from tune_farm.tuner.space.footprint import elements
from tune_farm.tuner.space.nest import Nest
from tune_farm.tuner.space.sketch import Genes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: TVM vectorizes an innermost loop of at most so many elements (`meta_schedule.vectorize`).
_MOST_VECTORIZED = 64
#: Statements that LLVM unrolls where TVM's annotation does not. Its threshold is a few hundred
#: instructions; of scalar statements most are of indices, which unrolling makes constants.
_UNROLLED_ANYWAY = 32.0
_SCALARS_UNROLLED_ANYWAY = 128.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopBody:
    """One draft a row: all arrays are (drafts,) float64.

    A body may run through several groups of outputs one after the other, each with all its
    reduction steps; what a group loads, and which results it waits for, is its own.
    """

    executions: Floats  # of a group, in the whole operator
    lanes: Floats  # elements of a vector over the lanes of the pieces it is split into: 0-1
    by_compiler: Floats  # 1 if LLVM is to find the vectors, not TVM
    elements: Floats  # of the output that a group updates
    depth: Floats  # reduction steps of a group
    accumulators: Floats  # vector registers for those elements
    ragged: Floats  # 1 if vectors are split into pieces of different widths
    operands: Floats  # vector registers beside them, at least
    multiply_adds: Floats  # vector instructions of a group
    loads: Floats  # vector loads of inputs by a group
    groups: Floats  # of one body
    chain: Floats  # executions of the body between two stores of its accumulators
    apart: Floats  # groups from one update of an output to the next; all, if there is one update
    is_updated_once: Floats  # 1 if a group does all reduction steps of its outputs
    code: Floats  # vector instructions of the body
    unrolled: Floats  # statements up to which TVM unrolls the loops of every block


def loop_body(nest: Nest, genes: Genes, cpu: Cpu) -> LoopBody:
    """Look at drafts of one sketch."""
    block = nest.block
    extents = nest.extents(genes)
    count = len(nest.loops)
    spatial = np.array([_is_spatial(nest, index) for index in range(count)])
    write = block.write
    innermost = _innermost(extents)
    rows = np.arange(len(genes))
    vector = extents[rows, innermost].astype(np.float64)
    last = _adjacent_axis(write)
    axis_of = np.array([loop.pieces[-1].axis for loop in nest.loops])
    by_tvm = _vectorizable(nest, last)[innermost] & (vector <= _MOST_VECTORIZED)
    start = _start(nest, genes, extents, innermost, by_tvm)
    covered = nest.covered(genes)
    # LLVM finds its vectors among all statements of a body: they are one group.
    first = np.where(by_tvm, _first_reduction(extents, spatial, start), start)
    group: Ints = covered[first, rows].copy()
    # Where TVM made no vector, LLVM takes the output's adjacent elements, if it sees several.
    around = np.maximum(start - 1, 0)
    outside = ~by_tvm & (group[:, last] == 1) & (start > 0) & (axis_of[around] == last)
    group[outside, last] = extents[rows, around][outside]
    vector = np.where(by_tvm, vector, group[:, last].astype(np.float64))
    lanes = max(1, cpu.vector_bytes // write.element_bytes)
    pieces = _pieces(vector, lanes)
    is_reduction = np.array([each.is_reduction for each in block.axes])
    updated = group[:, ~is_reduction].prod(axis=1).astype(np.float64)
    depth = group[:, is_reduction].prod(axis=1).astype(np.float64)
    accumulators = updated / vector * pieces
    step = np.where(is_reduction, 1, group)  # one reduction step of a group
    loads, vectors = np.zeros(len(genes)), np.zeros(len(genes))
    for access in block.reads:
        loads += _loads(access, group, last, vector, pieces)
        if access.moves_along(last):
            vectors += _loads(access, step, last, vector, pieces)
    # A step multiplies rows with vectors, the fewer of which stay in registers: the others are read
    # one by one where they are used.
    rows_of_step = np.maximum(1.0, accumulators / np.maximum(vectors, 1.0))
    total = extents.prod(axis=1, dtype=np.float64)
    groups = covered[start, rows].prod(axis=1) / covered[first, rows].prod(axis=1)
    chain = _run(extents, ~spatial, start)
    apart = _run(extents, spatial, first)
    steps = covered[0][:, is_reduction].prod(axis=1)
    return LoopBody(
        executions=total / (updated * depth),
        lanes=vector / (pieces * lanes),
        by_compiler=(~by_tvm).astype(np.float64),
        elements=updated,
        depth=depth,
        accumulators=accumulators,
        ragged=(vector % lanes > 0).astype(np.float64) * by_tvm,
        operands=np.minimum(vectors, rows_of_step) + 1.0,
        multiply_adds=accumulators * depth,
        loads=loads,
        groups=groups,
        chain=chain,
        apart=apart,
        is_updated_once=(depth == steps).astype(np.float64),
        code=(accumulators * depth + loads) * groups,
        unrolled=_unrolled(nest, genes),
    )


def _first_reduction(extents: Ints, spatial: NDArray[np.bool_], start: Ints) -> Ints:
    """The outermost reduction loop of a body; the body's start where it has none."""
    loops = np.arange(extents.shape[1])
    found = (extents > 1) & ~spatial & (loops >= start[:, None])
    return np.asarray(np.where(found.any(axis=1), found.argmax(axis=1), start))


def _is_spatial(nest: Nest, index: int) -> bool:
    return not any(nest.block.axes[p.axis].is_reduction for p in nest.loops[index].pieces)


def _vectorizable(nest: Nest, last: int) -> NDArray[np.bool_]:
    """Whether TVM makes a loop a vector if all loops inside of it have one iteration, (loops,).

    From the innermost loop outwards, those of one iteration too, each access must stay where it is
    or go on to the next element, and no loop may be of a reduction (TVM's
    `RewriteParallelVectorizeUnroll`). A convolution's 1x1 kernel moves its weight by a whole row.
    """
    steps = [
        {step for access in nest.block.accesses if (step := _flat_step(access, axis))}
        for axis in range(len(nest.block.axes))
    ]
    found = np.zeros(len(nest.loops), dtype=bool)
    for index in range(len(nest.loops) - 1, -1, -1):
        axis = nest.loops[index].pieces[-1].axis
        if not _is_spatial(nest, index) or not steps[axis] <= {1}:
            break
        found[index] = axis == last
    return found


def _flat_step(access: Access, axis: int) -> int:
    """Elements by which an access moves along an axis."""
    strides = np.cumprod([1, *access.shape[:0:-1]])[::-1]
    return int(
        sum(
            step * stride
            for terms, stride in zip(access.terms, strides, strict=True)
            for each, step in terms
            if each == axis
        )
    )


def _innermost(extents: Ints) -> Ints:
    """The innermost loop that is longer than 1; the last one where none is."""
    longer = extents[:, ::-1] > 1
    found = extents.shape[1] - 1 - longer.argmax(axis=1)
    return np.asarray(np.where(longer.any(axis=1), found, extents.shape[1] - 1))


def _start(
    nest: Nest, genes: Genes, extents: Ints, innermost: Ints, by_tvm: NDArray[np.bool_]
) -> Ints:
    """Loops around the body: whole inner loops are unrolled, up to a number of statements."""
    by_llvm = np.where(by_tvm, _UNROLLED_ANYWAY, _SCALARS_UNROLLED_ANYWAY)
    limit = np.maximum(by_llvm, _unrolled(nest, genes))
    statements = np.ones(len(genes))
    start = np.full(len(genes), extents.shape[1], dtype=np.int64)
    goes_on = np.ones(len(genes), dtype=bool)
    for index in range(extents.shape[1] - 1, -1, -1):
        is_vector = by_tvm & (innermost == index)
        larger = statements * np.where(is_vector, 1, extents[:, index])
        goes_on &= larger <= limit
        statements = np.where(goes_on, larger, statements)
        start = np.where(goes_on, index, start)
    return start


def _unrolled(nest: Nest, genes: Genes) -> Floats:
    annotated = nest.choice("meta_schedule.unroll_explicit", genes)
    return np.zeros(len(genes)) if annotated is None else annotated.astype(np.float64)


def _adjacent_axis(write: Access) -> int:
    """The axis along which the output's elements are adjacent in memory."""
    last = write.terms[-1] if write.terms else ()
    return next((axis for axis, step in last if step == 1), 0)


def _pieces(vector: Floats, lanes: int) -> Floats:
    """Instructions of one vector statement: whole vectors, and halves of halves for what is left.

    LLVM splits 14 elements into 8, 4 and 2.
    """
    whole, left = np.divmod(vector.astype(np.int64), lanes)
    bits = np.zeros_like(left)
    while left.any():
        bits += left & 1
        left >>= 1
    return np.maximum(1.0, (whole + bits).astype(np.float64))


def _run(extents: Ints, wanted: NDArray[np.bool_], depth: Ints) -> Floats:
    """Iterations of the loops directly around the first `depth` loops' inside, all of one kind."""
    run = np.ones(len(extents))
    goes_on = np.ones(len(extents), dtype=bool)
    for index in range(extents.shape[1] - 1, -1, -1):
        around = index < depth
        goes_on &= ~around | (extents[:, index] == 1) | wanted[index]
        run = np.where(around & goes_on, run * extents[:, index], run)
    return run


def _loads(access: Access, body: Ints, axis: int, vector: Floats, pieces: Floats) -> Floats:
    """Vector loads of one input: a piece of a vector, a broadcast, or a gathered element each."""
    others = body.copy()
    others[:, axis] = 1
    last = dict(access.terms[-1]) if access.terms else {}
    each = pieces if last.get(axis, 0) == 1 else vector
    return elements(access, others) * (each if access.moves_along(axis) else 1.0)
