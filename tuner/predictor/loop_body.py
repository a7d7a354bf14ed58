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
#: Statements that LLVM unrolls where TVM's annotation does not (its threshold is a few hundred
#: instructions).
_UNROLLED_ANYWAY = 32.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopBody:
    """One draft a row: all arrays are (drafts,) float64."""

    executions: Floats  # in the whole operator
    lanes: Floats  # elements of a vector over the lanes of the pieces it is split into: 0-1
    by_compiler: Floats  # 1 if LLVM is to find the vectors, not TVM
    elements: Floats  # of the output that the body updates
    depth: Floats  # reduction steps in the body
    accumulators: Floats  # vector registers for those elements
    ragged: Floats  # 1 if vectors are split into pieces of different widths
    operands: Floats  # vector registers beside them
    multiply_adds: Floats  # vector instructions
    loads: Floats  # vector loads of inputs
    chain: Floats  # executions between two stores of the accumulators
    code: Floats  # vector instructions in all
    unrolled: Floats  # statements up to which TVM unrolls the loops of every block


def loop_body(nest: Nest, genes: Genes, cpu: Cpu) -> LoopBody:
    """Look at drafts of one sketch."""
    block = nest.block
    extents = nest.extents(genes)
    count = len(nest.loops)
    spatial = np.array([_is_spatial(nest, index) for index in range(count)])
    write = next(access for access in block.accesses if access.is_write)
    innermost = _innermost(extents)
    rows = np.arange(len(genes))
    vector = extents[rows, innermost].astype(np.float64)
    last = _adjacent_axis(write)
    axis_of = np.array([loop.pieces[-1].axis for loop in nest.loops])
    by_tvm = spatial[innermost] & (axis_of[innermost] == last) & (vector <= _MOST_VECTORIZED)
    start = _start(nest, genes, extents, innermost, by_tvm)
    covered = np.stack([nest.covered(genes, depth) for depth in range(count + 1)])
    body: Ints = covered[start, rows].copy()
    # Where TVM made no vector, LLVM takes the output's adjacent elements, if it sees several.
    around = np.maximum(start - 1, 0)
    outside = ~by_tvm & (body[:, last] == 1) & (start > 0) & (axis_of[around] == last)
    body[outside, last] = extents[rows, around][outside]
    vector = np.where(by_tvm, vector, body[:, last].astype(np.float64))
    lanes = max(1, cpu.vector_bytes // write.element_bytes)
    pieces = _pieces(vector, lanes)
    is_reduction = np.array([each.is_reduction for each in block.axes])
    updated = body[:, ~is_reduction].prod(axis=1).astype(np.float64)
    depth = body[:, is_reduction].prod(axis=1).astype(np.float64)
    accumulators = updated / vector * pieces
    loads = np.zeros(len(genes))
    for access in block.accesses:
        if not access.is_write:
            loads += _loads(access, body, last, vector, pieces)
    total = extents.prod(axis=1, dtype=np.float64)
    return LoopBody(
        executions=total / (updated * depth),
        lanes=vector / (pieces * lanes),
        by_compiler=(~by_tvm).astype(np.float64),
        elements=updated,
        depth=depth,
        accumulators=accumulators,
        ragged=(vector % lanes > 0).astype(np.float64) * by_tvm,
        operands=pieces + 1.0,
        multiply_adds=accumulators * depth,
        loads=loads,
        chain=_chain(extents, spatial, start),
        code=accumulators * depth + loads,
        unrolled=_unrolled(nest, genes),
    )


def _is_spatial(nest: Nest, index: int) -> bool:
    return not any(nest.block.axes[p.axis].is_reduction for p in nest.loops[index].pieces)


def _innermost(extents: Ints) -> Ints:
    """The innermost loop that is longer than 1; the last one where none is."""
    longer = extents[:, ::-1] > 1
    found = extents.shape[1] - 1 - longer.argmax(axis=1)
    return np.asarray(np.where(longer.any(axis=1), found, extents.shape[1] - 1))


def _start(
    nest: Nest, genes: Genes, extents: Ints, innermost: Ints, by_tvm: NDArray[np.bool_]
) -> Ints:
    """Loops around the body: whole inner loops are unrolled, up to a number of statements."""
    limit = np.maximum(_UNROLLED_ANYWAY, _unrolled(nest, genes))
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


def _chain(extents: Ints, spatial: NDArray[np.bool_], start: Ints) -> Floats:
    """Iterations of the reduction loops directly around the body."""
    chain = np.ones(len(extents))
    goes_on = np.ones(len(extents), dtype=bool)
    for index in range(extents.shape[1] - 1, -1, -1):
        around = index < start
        longer = extents[:, index] > 1
        goes_on &= ~around | ~longer | ~spatial[index]
        chain = np.where(around & goes_on, chain * extents[:, index], chain)
    return chain


def _loads(access: Access, body: Ints, axis: int, vector: Floats, pieces: Floats) -> Floats:
    """Vector loads of one input: a piece of a vector, a broadcast, or a gathered element each."""
    others = body.copy()
    others[:, axis] = 1
    last = dict(access.terms[-1]) if access.terms else {}
    moves = any(axis == each for terms in access.terms for each, _ in terms)
    each = pieces if last.get(axis, 0) == 1 else vector
    return elements(access, others) * (each if moves else 1.0)
