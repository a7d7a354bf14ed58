"""Shared memory of a kernel's block, byte for byte as TVM lays it out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.space.footprint import elements
from tune_farm.tuner.space.kernel_extents import Extents
from tune_farm.tuner.space.kernels import Kernel, Member

Floats = NDArray[np.float64]

#: TVM starts each buffer of the one dynamic allocation at a multiple of so many bytes.
_ALIGNMENT = 64
_WARP = 32


def shared_bytes(kernel: Kernel, extents: Extents) -> Floats:
    """Static and dynamic shared memory of a block together, (drafts,) float64."""
    total = np.zeros(len(extents.ones))
    dynamic = []
    for member in kernel.members:
        if member.is_shared:
            size = _buffer_bytes(extents, member)
            if member.write.scope == "shared.dyn":
                dynamic.append(size)
            else:
                total += size
        if member.reduces_across_threads:
            total += _staging_bytes(extents, member)
    return total + merged_bytes(dynamic, len(total))


def _buffer_bytes(extents: Extents, member: Member) -> Floats:
    """One buffer, with a copy for each version that a software pipeline keeps."""
    versions = max((loop.versions for loop in member.loops[: member.depth]), default=1)
    size = elements(member.write, extents.once(member))
    return versions * size * member.write.element_bytes


def merged_bytes(sizes: list[Floats], count: int) -> Floats:
    """Dynamic buffers are one allocation: smaller ones first, all alive at the same time."""
    end = np.zeros(count)
    if sizes:
        for size in np.sort(np.stack(sizes), axis=0):
            end = np.ceil(end / _ALIGNMENT) * _ALIGNMENT + size
    return end


def _staging_bytes(extents: Extents, member: Member) -> Floats:
    """What a sum over threads takes: nothing in a warp, a word a warp and the result beyond it.

    Warps can't pass on values of other sizes than 4 and 8 bytes, nor sums over threads that are
    neither a part of a warp nor whole warps: all of them go through memory then.
    """
    size = member.write.element_bytes
    threads = extents.bound("threadIdx").astype(np.float64)
    summing = extents.iterations(
        loop for loop in member.loops if loop.is_thread and member.sums_over(loop)
    ).astype(np.float64)
    groups = threads / summing
    by_warp = (_WARP % summing == 0) | (summing % _WARP == 0) | (groups == 1) & (summing <= _WARP)
    by_warp &= size in (4, 8)
    words = np.where(summing > _WARP, groups * (summing / _WARP + 1), 0.0)
    return np.where(by_warp, words, threads) * size * (summing > 1)
