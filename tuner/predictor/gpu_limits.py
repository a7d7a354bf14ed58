"""Which drafts a GPU can launch at all, and a build is worth: decided on arrays, before TVM."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.cuda_tiles import cuda_tiles
from tune_farm.tuner.predictor.gpu_tiles import GpuTiles
from tune_farm.tuner.predictor.machine import Gpu
from tune_farm.tuner.space.kernel_extents import Extents
from tune_farm.tuner.space.kernels import Kernel
from tune_farm.tuner.space.sketch import Genes, Sketch

#: TVM refuses more virtual threads: each is one more copy of the body.
_MOST_VIRTUAL_THREADS = 8
#: Statements of an unrolled body: beyond it TVM, then the device's compiler, take seconds.
_MOST_CODE = 2048
#: Values of a thread that must be in registers at the same time, over what a thread has: some of
#: them a compiler can load later, but not half of them.
_MOST_PRESSURE = 1.25


def gpu_fits(
    kernels: tuple[Kernel, ...], sketch: Sketch, genes: Genes, gpu: Gpu
) -> NDArray[np.bool_]:
    """Whether drafts keep to the limits of the device and of a sane build, (drafts,) bool."""
    fits = np.ones(len(genes), dtype=bool)
    for kernel, tiles in zip(kernels, cuda_tiles(kernels, sketch, genes), strict=True):
        fits &= _is_accepted(kernel, Extents(kernel, sketch, genes), tiles)
        fits &= _is_launchable(tiles, gpu) & (tiles.code <= _MOST_CODE)
    return fits


def _is_accepted(kernel: Kernel, extents: Extents, tiles: GpuTiles) -> NDArray[np.bool_]:
    """What TVM asks for beside the device's limits."""
    accepted = (tiles.threads >= kernel.fewest_threads) & (tiles.threads <= kernel.most_threads)
    return np.asarray(accepted & (extents.bound("vthread") <= _MOST_VIRTUAL_THREADS))


def _is_launchable(tiles: GpuTiles, gpu: Gpu) -> NDArray[np.bool_]:
    warps = np.ceil(tiles.threads / gpu.warp)
    # A launch needs the registers of one block; TVM tells the compiler how many threads it has.
    registers = np.minimum(gpu.max_thread_registers, gpu.registers / (warps * gpu.warp))
    return np.asarray(
        (tiles.threads <= gpu.max_block_threads)
        & (tiles.shared_bytes <= gpu.max_block_shared_bytes)
        & (tiles.registers <= _MOST_PRESSURE * registers)
    )
