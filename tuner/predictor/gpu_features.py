"""Dimensionless features of a GPU's drafts: what its law multiplies, as `features` for CPUs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.gpu_tiles import GpuTiles
from tune_farm.tuner.predictor.machine import Gpu

Floats = NDArray[np.float64]


def gpu_features(tiles: tuple[GpuTiles, ...], seconds: Floats, gpu: Gpu) -> NDArray[np.float32]:
    """Features of drafts: (drafts, features) float32.

    Those of the kernel that takes longest, and how much of the time it takes.

    Args:
        tiles: of each kernel.
        seconds: what the law says of each, (kernels, drafts) float64.
        gpu: the share that both are for.
    """
    longest = seconds.argmax(axis=0)
    rows = np.arange(seconds.shape[1])
    each = np.stack(
        [_of_kernel(tile, time, gpu) for tile, time in zip(tiles, seconds, strict=True)]
    )
    part = seconds[longest, rows] / seconds.sum(axis=0)
    return np.column_stack([each[longest, rows], part]).astype(np.float32)


def _of_kernel(tiles: GpuTiles, seconds: Floats, gpu: Gpu) -> Floats:
    cycles = seconds * gpu.clock_hertz * gpu.sms
    peak = gpu.multiply_adds(on_tensor_cores=tiles.on_tensor_cores)
    columns = [
        _log(tiles.blocks / gpu.sms),
        _log(tiles.threads / gpu.warp),
        _log(tiles.registers * tiles.threads / gpu.registers),
        _log(1e-6 + tiles.shared_bytes / gpu.shared_bytes),
        _log(tiles.accumulators),
        _log(tiles.loads * tiles.threads / tiles.flops),
        _log(1e-6 + tiles.shared_traffic_bytes / tiles.flops),
        _log(1e-6 + tiles.global_bytes / tiles.flops),
        _log(1e-6 + tiles.global_bytes * tiles.blocks / tiles.unique_bytes),
        _log(1e-6 + tiles.unique_bytes / gpu.l2_bytes),
        tiles.vector_bytes / 16,
        _log(tiles.code),
        _log(tiles.blocks * tiles.flops / (2 * peak) / cycles),
    ]
    return np.stack(columns, axis=1)


def _log(values: Floats) -> Floats:
    return np.asarray(np.log2(np.maximum(values, 1e-12)))
