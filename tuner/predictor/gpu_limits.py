"""Which drafts a GPU can launch at all, and a build is worth: decided on arrays, before TVM."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.cuda_tiles import cuda_tiles
from tune_farm.tuner.predictor.gpu_tiles import GpuTiles
from tune_farm.tuner.predictor.machine import Gpu
from tune_farm.tuner.space.kernel_extents import Extents
from tune_farm.tuner.space.kernels import Kernel, Member
from tune_farm.tuner.space.sketch import Genes, Sketch

#: TVM refuses more virtual threads: each is one more copy of the body.
_MOST_VIRTUAL_THREADS = 8
#: Statements of an unrolled body, each about 500 characters of source: beyond it TVM, then the
#: device's compiler, take seconds, for code that an instruction cache does not hold.
_MOST_CODE = 512
#: Values of a thread that want a register at the same time, over what a thread can have: a few of
#: them a compiler loads later.
_MOST_PRESSURE = 1.05
#: Statements of loops that the device's compiler unrolls by itself. Of 72 kernels of three
#: operators for an H100, 44 kept to this and to the pressure, of which one spilled; of the 28
#: others, all but three had accumulators in memory.
_UNROLLED_ANYWAY = 256


def gpu_fits(
    kernels: tuple[Kernel, ...], sketch: Sketch, genes: Genes, gpu: Gpu
) -> NDArray[np.bool_]:
    """Whether drafts keep to the limits of the device and of a sane build, (drafts,) bool."""
    fits = np.ones(len(genes), dtype=bool)
    for kernel, tiles in zip(kernels, cuda_tiles(kernels, sketch, genes), strict=True):
        extents = Extents(kernel, sketch, genes)
        fits &= _is_accepted(kernel, extents, tiles) & _is_launchable(tiles, gpu)
        fits &= _keeps_its_tile(kernel, extents) & (tiles.code <= _MOST_CODE)
    return fits


def _is_accepted(kernel: Kernel, extents: Extents, tiles: GpuTiles) -> NDArray[np.bool_]:
    """What TVM asks for beside the device's limits."""
    accepted = (tiles.threads >= kernel.fewest_threads) & (tiles.threads <= kernel.most_threads)
    accepted &= extents.bound("vthread") <= _MOST_VIRTUAL_THREADS
    for loop in {loop for member in kernel.members for loop in member.loops if loop.versions > 1}:
        # Once around, the sum's start falls into the loop as a stage that the pipeline has not.
        accepted &= extents.loop(loop) > 1
    for member in kernel.members:
        if member.reduces_across_threads:
            accepted &= _is_one_sum(kernel, member, extents)
        if member.is_shared:
            accepted &= _is_bounded(kernel, member, extents)
    return np.asarray(accepted)


def _is_one_sum(kernel: Kernel, member: Member, extents: Extents) -> NDArray[np.bool_]:
    """Whether a sum over threads stands once in the code: TVM's lowering knows a buffer's one sum.

    Rows that a block sums one after the other become a sum each where their loop is unrolled.
    """
    serial = [loop for loop in member.loops if loop.is_serial]
    rows = extents.iterations(loop for loop in serial if not member.sums_over(loop))
    if kernel.unroll is None:
        return rows >= 0
    unrolled = extents.iterations(serial) <= extents.decided(kernel.unroll)
    return np.asarray((rows == 1) | ~unrolled)


def _is_bounded(kernel: Kernel, member: Member, extents: Extents) -> NDArray[np.bool_]:
    """Whether TVM finds the part of a buffer that a copy in shared memory needs.

    It may not where a tile has all of a group's inputs and but some of its outputs: it cannot tell
    then that they are of one group, and copies all groups.
    """
    bounded = np.ones(len(extents.ones), dtype=bool)
    around = [each for each in member.loops[: member.depth] if each.is_thread or each.is_virtual]
    for other in kernel.members:
        for access in other.reads:
            if access.buffer != member.write.buffer or not access.stairs:
                continue
            region = extents.region(other, {*around, *other.loops[member.depth :]})
            for terms, stairs in zip(access.terms, access.stairs, strict=True):
                inputs = 1 + sum(step * (region[:, axis] - 1) for axis, step in terms)
                for axis, height, length in stairs:
                    bounded &= (region[:, axis] % length == 0) | (inputs < height)
    return bounded


def _is_launchable(tiles: GpuTiles, gpu: Gpu) -> NDArray[np.bool_]:
    warps = np.ceil(tiles.threads / gpu.warp)
    # A launch needs the registers of one block; TVM tells the compiler how many threads it has.
    registers = np.minimum(gpu.max_thread_registers, gpu.registers / (warps * gpu.warp))
    return np.asarray(
        (tiles.threads <= gpu.max_block_threads)
        & (tiles.shared_bytes <= gpu.max_block_shared_bytes)
        & (tiles.registers <= _MOST_PRESSURE * registers)
    )


def _keeps_its_tile(kernel: Kernel, extents: Extents) -> NDArray[np.bool_]:
    """Whether a thread's accumulators can be registers, which have no index.

    All loops from the outermost that runs through them inwards must be unrolled, by TVM as far as
    the sketch says or by the device's compiler.
    """
    inside = extents.bound("vthread")
    unrolled, running = inside, np.zeros(len(inside), dtype=bool)
    for loop in kernel.anchor.loops:
        if loop.is_serial:
            count = extents.loop(loop)
            running |= (count > 1) & (not kernel.anchor.sums_over(loop))
            unrolled = unrolled * np.where(running, count, 1)
    limit = np.full(len(inside), _UNROLLED_ANYWAY, dtype=np.int64)
    if kernel.unroll is not None:
        limit = np.maximum(limit, extents.decided(kernel.unroll))
    return np.asarray((unrolled <= limit) | ~running)
