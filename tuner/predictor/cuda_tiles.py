"""What the GPU law sees of a CUDA sketch's drafts: one `GpuTiles` for each kernel launched."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.gpu_tiles import GpuTiles
from tune_farm.tuner.predictor.shared_memory import shared_bytes
from tune_farm.tuner.space.anatomy import Access
from tune_farm.tuner.space.footprint import elements, lines_of
from tune_farm.tuner.space.kernel_extents import Extents
from tune_farm.tuner.space.kernels import Kernel, Loop, Member
from tune_farm.tuner.space.sketch import Genes, Sketch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: What DRAM and L2 hand out at a time.
_SECTOR_BYTES = 32
#: Registers of a thread for addresses, indices and predicates, before any operand.
_BASE_REGISTERS = 20.0
#: Operands that a compiler keeps in flight; more of them are loaded later.
_MOST_OPERANDS = 48.0
#: Statements that the device's compiler unrolls where TVM's annotation does not.
_UNROLLED_ANYWAY = 16.0


def cuda_tiles(kernels: tuple[Kernel, ...], sketch: Sketch, genes: Genes) -> tuple[GpuTiles, ...]:
    """Look at drafts of one sketch: (drafts, decisions) int64."""
    return tuple(_tiles(kernel, Extents(kernel, sketch, genes)) for kernel in kernels)


def _tiles(kernel: Kernel, extents: Extents) -> GpuTiles:
    block = frozenset(
        loop for member in kernel.members for loop in member.loops if not loop.is_grid
    )
    thread = frozenset(loop for loop in block if not loop.is_thread)
    threads = extents.bound("threadIdx").astype(np.float64)
    main = _main(kernel)
    tile = extents.region(main, thread)
    reduces = np.array([axis.is_reduction for axis in main.block.axes])
    accumulators = tile[:, ~reduces].prod(axis=1).astype(np.float64)
    steps = tile[:, reduces].prod(axis=1).astype(np.float64)
    wide = main.write.element_bytes / 4
    fetched = _fetched(kernel, extents, threads)
    per_step = _per_step(main, tile, reduces)
    return GpuTiles(
        blocks=extents.bound("blockIdx").astype(np.float64),
        threads=threads,
        registers=_BASE_REGISTERS
        + np.maximum(wide, 1.0) * (accumulators + np.minimum(per_step, _MOST_OPERANDS)),
        shared_bytes=shared_bytes(kernel, extents),
        flops=_flops(kernel, extents, block),
        accumulators=accumulators,
        global_bytes=_global_bytes(kernel, extents, block),
        unique_bytes=_unique_bytes(kernel) + np.zeros(len(threads)),
        shared_traffic_bytes=_shared_traffic(kernel, extents, main, tile, reduces, threads),
        loads=per_step * steps + sum((each.loads for each in fetched), np.zeros(len(threads))),
        vector_bytes=_vector_bytes(main, fetched) + np.zeros(len(threads)),
        code=_code(kernel, extents, main, fetched),
    )


def _main(kernel: Kernel) -> Member:
    """The block that does the work: a reduction rather than what follows, the largest of them."""

    def work(member: Member) -> tuple[bool, int]:
        points = math.prod(axis.extent for axis in member.block.axes)
        return member.block.is_reduction, points

    return max(kernel.members, key=work)


def _computes(kernel: Kernel, member: Member) -> bool:
    """Whether a block is more than a copy into shared memory or out of registers."""
    return not kernel.is_tiled or not member.depth


def _flops(kernel: Kernel, extents: Extents, block: Collection[Loop]) -> Floats:
    total = np.zeros(len(extents.ones))
    for member in kernel.members:
        if _computes(kernel, member):
            each = 2.0 if member.block.is_reduction else 1.0
            total += each * extents.region(member, block).prod(axis=1, dtype=np.float64)
    return total


def _trips(extents: Extents, member: Member) -> Floats:
    """How often one thread comes by the place where a block is computed, (drafts,) float64."""
    around = member.loops[: member.depth]
    return extents.iterations(loop for loop in around if loop.is_serial).astype(np.float64)


def _global_bytes(kernel: Kernel, extents: Extents, block: Collection[Loop]) -> Floats:
    total = np.zeros(len(extents.ones))
    for member in kernel.members:
        if member.fetch is not None:
            region, trips = extents.once(member), _trips(extents, member)
        else:
            region, trips = extents.region(member, block), np.ones(len(total))
        for access in (*member.reads, member.write):
            if access.scope == "global":
                total += trips * lines_of(access, region, _SECTOR_BYTES).count * _SECTOR_BYTES
    return total


def _unique_bytes(kernel: Kernel) -> float:
    """Bytes of the global buffers that a kernel touches, as far as it does, each once."""
    sizes: dict[str, float] = {}
    for member in kernel.members:
        whole = np.array([[axis.extent for axis in member.block.axes]], dtype=np.int64)
        for access in (*member.reads, member.write):
            if access.scope == "global":
                size = access.element_bytes * float(elements(access, whole)[0])
                sizes[access.buffer] = max(size, sizes.get(access.buffer, 0.0))
    return sum(sizes.values())


def _per_step(main: Member, tile: Ints, reduces: NDArray[np.bool_]) -> Floats:
    """Elements that a thread loads for one step of its reduction, (drafts,) float64."""
    step = _at_one_step(tile, reduces)
    return sum((elements(read, step) for read in main.reads), np.zeros(len(tile)))


def _at_one_step(tile: Ints, reduces: NDArray[np.bool_]) -> Ints:
    step = tile.copy()
    step[:, reduces] = 1
    return step


def _shared_traffic(
    kernel: Kernel,
    extents: Extents,
    main: Member,
    tile: Ints,
    reduces: NDArray[np.bool_],
    threads: Floats,
) -> Floats:
    """Bytes that a block writes to shared memory, and that its threads read from there."""
    total = np.zeros(len(threads))
    steps = tile[:, reduces].prod(axis=1).astype(np.float64)
    for read in main.reads:
        if _is_shared(read):
            each = elements(read, _at_one_step(tile, reduces))
            total += each * steps * threads * read.element_bytes
    for member in kernel.members:
        if member.is_shared:
            written = elements(member.write, extents.once(member)) * member.write.element_bytes
            total += _trips(extents, member) * written
    return total


def _is_shared(access: Access) -> bool:
    return access.scope.startswith("shared")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetch:
    """One copy into shared memory, by all threads of a block: (drafts,) float64."""

    loads: Floats  # instructions of a thread, in the whole kernel
    visit: Floats  # of those, at one visit
    vector_bytes: Floats  # of one
    statements: Floats  # that stand for one load as it was asked for


def _fetched(kernel: Kernel, extents: Extents, threads: Floats) -> list[_Fetch]:
    found = []
    for member in kernel.members:
        if member.fetch is None:
            continue
        size = elements(member.write, extents.once(member))
        asked = extents.decided(member.fetch).astype(np.float64)
        # RewriteCooperativeFetch leaves a remainder, and values of 8 bytes, to single loads.
        asked = np.where((size % asked == 0) & (member.write.element_bytes <= 4), asked, 1.0)
        vector = np.where(_row(extents, member) % asked == 0, asked, 1.0)
        visit = np.ceil(size / (threads * asked))
        found.append(
            _Fetch(
                loads=visit * (asked / vector) * _trips(extents, member),
                visit=visit,
                vector_bytes=vector * member.write.element_bytes,
                statements=asked / vector,
            )
        )
    return found


def _row(extents: Extents, member: Member) -> Floats:
    """Adjacent elements that a copy reads: a vector ends where they end, (drafts,) float64."""
    read = next((each for each in member.reads if each.scope == "global"), member.write)
    region = extents.once(member)
    row = np.ones(len(region))
    for axis, step in read.terms[-1] if read.terms else ():
        row = row * np.where(step == 1, region[:, axis], 1)
    return row


def _vector_bytes(main: Member, fetched: list[_Fetch]) -> Floats:
    """Bytes of a global load, the mean of all loads."""
    if not fetched:
        return np.array([float(main.write.element_bytes)])
    loads = sum(each.loads for each in fetched)
    return np.asarray(sum(each.loads * each.vector_bytes for each in fetched) / loads)


def _code(kernel: Kernel, extents: Extents, main: Member, fetched: list[_Fetch]) -> Floats:
    """Statements of a thread's unrolled body, with the copies that a pipeline makes of it."""
    limit = np.full(len(extents.ones), _UNROLLED_ANYWAY)
    if kernel.unroll is not None:
        limit = np.maximum(limit, extents.decided(kernel.unroll))
    statements = extents.iterations(loop for loop in main.loops if loop.is_virtual).astype(float)
    goes_on = np.ones(len(limit), dtype=bool)
    for loop in reversed([loop for loop in main.loops if loop.is_serial]):
        larger = statements * extents.loop(loop)
        goes_on &= larger <= limit
        statements = np.where(goes_on, larger, statements)
    for each in fetched:
        statements = statements + each.statements * np.where(each.visit <= limit, each.visit, 1.0)
    copies = max((loop.versions for member in kernel.members for loop in member.loops), default=1)
    return statements * copies
