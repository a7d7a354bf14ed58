"""What the CPU law sees of drafts: loop body, cache traffic, stages, jobs; all as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.loop_body import LoopBody, loop_body
from tune_farm.tuner.predictor.machine import Cpu
from tune_farm.tuner.space.footprint import Lines, elements, lines_of
from tune_farm.tuner.space.nest import Nest, depths
from tune_farm.tuner.space.sketch import Genes

Floats = NDArray[np.float64]

_LINE_BYTES = 64
#: A tile shares its cache with what streams through: the part that it may fill.
_CACHE_PART = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTiles:
    """One draft a row: all arrays are (drafts,) float64."""

    body: LoopBody
    refill_bytes: tuple[Floats, ...]  # from beyond each cache, in the whole operator
    stage_elements: Floats  # written by earlier stages, those computed twice counted twice
    inlined: Floats  # 1 if an earlier stage is computed at each use
    epilogue_bytes: Floats  # that a later stage reads from beyond the nearest cache
    jobs: Floats  # iterations of the parallel loop


def cpu_tiles(nest: Nest, genes: Genes, cpu: Cpu) -> CpuTiles:
    """Look at drafts of one sketch."""
    covered = nest.covered(genes)
    inlined, stage_elements = _earlier_stages(nest, genes, covered)
    # Of each access inside of the first loops.
    lines = [[lines_of(access, inside) for access in nest.block.accesses] for inside in covered]
    sizes = np.array([[each.count for each in row] for row in lines]) * _LINE_BYTES
    return CpuTiles(
        body=loop_body(nest, genes, cpu),
        refill_bytes=tuple(
            _refill(nest, genes, sizes, _fits(lines, sizes, capacity, sets))
            for capacity, sets in zip(cpu.cache_bytes, cpu.cache_sets, strict=True)
        ),
        stage_elements=stage_elements,
        inlined=inlined,
        epilogue_bytes=_epilogue(nest, covered, cpu),
        jobs=_jobs(nest, genes),
    )


def _refill(nest: Nest, genes: Genes, sizes: Floats, fits: NDArray[np.bool_]) -> Floats:
    """Bytes of lines that pass into a cache: the largest tile that fits moves through the operator.

    From one place to the next, along the loop directly around it, it keeps what both have in
    common: lines that were used in part, the overlap of windows. A buffer that this loop does not
    move stays as long as no loop moves it.
    """
    extents = nest.extents(genes).astype(np.float64)
    count, accesses, rows = len(nest.loops), nest.block.accesses, np.arange(len(genes))
    around = _loop_around(extents, fits.argmax(axis=0))
    total = np.zeros(len(genes))
    for index, access in enumerate(accesses):
        moving = {axis for terms in access.terms for axis, _ in terms}
        moves = np.array([any(p.axis in moving for p in loop.pieces) for loop in nest.loops])
        times, stays = np.ones(len(genes)), ~moves[around]
        for loop in range(count - 1, -1, -1):
            grows = (loop < around) & (extents[:, loop] > 1)
            stays &= ~(grows & moves[loop])
            times *= np.where(grows & ~stays, extents[:, loop], 1.0)
        total += sizes[around, index, rows] * times
    return total


def _fits(lines: list[list[Lines]], sizes: Floats, capacity: int, sets: int) -> NDArray[np.bool_]:
    """Whether the tiles inside of the first loops fit a cache: (loops + 1, drafts) bool."""
    crowding = np.array([[each.crowding(sets) for each in row] for row in lines])
    fits = sizes.sum(axis=1) <= _CACHE_PART * capacity
    fits &= (sizes * crowding <= capacity).all(axis=1)
    fits[-1] = True
    return np.asarray(fits)


def _loop_around(extents: Floats, depth: NDArray[np.int64]) -> NDArray[np.int64]:
    """The innermost loop longer than 1 around the first `depth` loops' inside; 0 if none is."""
    around = np.zeros(len(extents), dtype=np.int64)
    for loop in range(extents.shape[1]):
        around = np.where((loop < depth) & (extents[:, loop] > 1), loop, around)
    return around


def _earlier_stages(nest: Nest, genes: Genes, covered: NDArray[np.int64]) -> tuple[Floats, Floats]:
    inlined, written = np.zeros(len(genes)), np.zeros(len(genes))
    extents = nest.extents(genes).astype(np.float64)
    for stage in nest.stages:
        access = next((read for read in nest.block.reads if read.buffer == stage.block), None)
        if access is None:
            continue
        depth_of = depths(stage, nest, genes)
        inlined = np.maximum(inlined, (depth_of < 0).astype(np.float64))
        for depth in np.unique(depth_of[depth_of >= 0]):
            rows = depth_of == depth
            times = extents[rows, :depth].prod(axis=1)
            written[rows] += times * elements(access, covered[depth, rows])
    return inlined, written


def _epilogue(nest: Nest, covered: NDArray[np.int64], cpu: Cpu) -> Floats:
    """A later stage reads the output again: from afar if the tile in between is large."""
    write = nest.block.write
    names = {read.buffer for read in nest.block.reads}
    later = [s for s in nest.stages if s.block not in names and s.depth is not None]
    depth = later[-1].depth if later and later[-1].depth is not None else 0
    size = write.element_bytes * elements(write, covered[depth])
    whole = float(np.prod(write.shape)) * write.element_bytes
    return np.where(size > _CACHE_PART * cpu.cache_bytes[0], whole, 0.0)


def _jobs(nest: Nest, genes: Genes) -> Floats:
    """Iterations of the outermost tile's loops, which run in parallel."""
    extents = nest.extents(genes).astype(np.float64)
    outer = sum(not axis.is_reduction for axis in nest.block.axes)
    return np.asarray(extents[:, :outer].prod(axis=1))
