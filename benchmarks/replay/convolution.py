"""Tiles of Kernel Tuner's 15 x 15 convolution of a 4096 x 4096 float32 image.

A block of threads computes tile_size outputs a thread in each direction, block_size apart. With
use_shmem it stages its part of the image and a border in shared memory. Where the image is not a
multiple of the tile, each access to it is guarded.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.gpu_tiles import GpuTiles

Floats = NDArray[np.float64]

_IMAGE, _FILTER = 4096.0, 15.0
_BORDER = _FILTER - 1
_OTHER_REGISTERS = 20.0


def convolution_tiles(p: Mapping[str, Floats], warp: int) -> GpuTiles:
    """Look at configurations: each parameter is (configurations,) float64."""
    bx, by = p["block_size_x"], p["block_size_y"]
    tx, ty = p["tile_size_x"], p["tile_size_y"]
    threads, outputs = bx * by, tx * ty
    width, height = bx * tx, by * ty
    guarded = is_guarded(p)
    staged = p["use_shmem"] > 0
    # A row of the image that two outputs of a thread need is loaded once, unless loads are guarded.
    rows = np.where((by <= _BORDER) & (staged | ~guarded), _FILTER + by * (ty - 1), _FILTER * ty)
    rows = np.minimum(rows, _FILTER * ty)
    loads = rows * _FILTER * tx
    warps = np.ceil(threads / warp)
    row_words = width + _BORDER + _padding(p)
    tile_bytes = 4.0 * (width + _BORDER) * (height + _BORDER)
    wavefronts = warps * loads * (warp / 32)
    # Lanes of one warp that lie in different rows of the block may meet in the same banks.
    conflict = np.where(staged, _conflicts(bx, row_words), 1.0)
    fill = np.where(staged, 2.0 * tile_bytes, 0.0)
    asked = tile_bytes * _sectors(width) + 4.0 * width * height
    return GpuTiles(
        blocks=np.ceil(_IMAGE / width) * np.ceil(_IMAGE / height),
        threads=threads,
        registers=_OTHER_REGISTERS + 2 * outputs,
        shared_bytes=np.where(staged, 4.0 * row_words * (height + _BORDER), 0.0),
        flops=2.0 * width * height * _FILTER**2,
        accumulators=outputs,
        global_bytes=asked,
        unique_bytes=np.full(len(threads), 8.0 * _IMAGE**2),
        shared_traffic_bytes=128.0 * wavefronts * conflict + fill,
        loads=loads + fill / 4.0 / threads,
        vector_bytes=np.full(len(threads), 4.0),
        code=_FILTER**2 * outputs + loads,
    )


def is_guarded(p: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """Whether the image is no multiple of the tile, so that bounds are checked."""
    across = _IMAGE % (p["block_size_x"] * p["tile_size_x"])
    down = _IMAGE % (p["block_size_y"] * p["tile_size_y"])
    return (across > 0) | (down > 0)


def _padding(p: Mapping[str, Floats]) -> Floats:
    """Columns that the kernel adds to the staged tile, against meeting in the same banks."""
    bx = p["block_size_x"]
    over = _BORDER + bx * p["tile_size_x"] - bx
    needed = (p["use_padding"] > 0) & (bx % 32 > 0) & (over % 32 > 0)
    return np.where(needed, (32 - over) % 32, 0.0)


def _conflicts(bx: Floats, row_words: Floats) -> Floats:
    """Wavefronts of a 32-lane load whose lanes wrap into the next row of the staged tile."""
    result = np.ones(len(bx))
    for index, (width, words) in enumerate(zip(bx, row_words, strict=True)):
        lanes = np.arange(32)
        address = (lanes // width) * words + lanes % width
        result[index] = np.bincount((address % 32).astype(int)).max()
    return result


def _sectors(width: Floats) -> Floats:
    """Bytes in whole 32-byte sectors of a row over its own bytes."""
    words = width + _BORDER
    return np.asarray((np.ceil(words / 8) + 1) * 8 / words)
