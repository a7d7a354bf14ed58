"""How many blocks of a kernel live on one streaming multiprocessor at a time.

The first of four limits that is met: block slots, threads, registers, shared memory (CUDA C++
Programming Guide, "Hardware Multithreading" and the table "Technical Specifications per Compute
Capability").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.gpu_tiles import GpuTiles
from tune_farm.tuner.predictor.machine import Gpu

Floats = NDArray[np.float64]

#: Registers are handed to a thread in eights, to a warp in 256.
_REGISTERS_AT_ONCE = 8
#: Shared memory that the system keeps of each block's (compute capability 8.0 and later: 1 KiB).
_RESERVED_SHARED_BYTES = 1024


def resident_blocks(tiles: GpuTiles, gpu: Gpu) -> Floats:
    """Blocks that one SM holds at a time, (drafts,) float64; 0 where not even one fits."""
    warps = np.ceil(tiles.threads / gpu.warp)
    registers = np.minimum(tiles.registers, most_registers(tiles, gpu))  # what is over is spilled
    handed = _REGISTERS_AT_ONCE * np.ceil(np.maximum(registers, 1.0) / _REGISTERS_AT_ONCE)
    shared = np.where(tiles.shared_bytes > 0, tiles.shared_bytes + _RESERVED_SHARED_BYTES, 1.0)
    fitting = np.minimum.reduce(
        [
            np.full(len(warps), float(gpu.max_blocks)),
            np.floor(gpu.max_threads / (warps * gpu.warp)),
            np.floor(gpu.registers / (handed * warps * gpu.warp)),
            np.floor(gpu.shared_bytes / shared),
        ]
    )
    return np.where(is_launchable(tiles, gpu), fitting, 0.0)


def most_registers(tiles: GpuTiles, gpu: Gpu) -> Floats:
    """What a thread can have, (drafts,): compilers are told a block's threads, and keep to it."""
    threads = np.ceil(tiles.threads / gpu.warp) * gpu.warp
    portions = np.floor(gpu.registers / threads / _REGISTERS_AT_ONCE)
    return np.asarray(np.minimum(gpu.max_thread_registers, portions * _REGISTERS_AT_ONCE))


def is_launchable(tiles: GpuTiles, gpu: Gpu) -> NDArray[np.bool_]:
    """Whether one block keeps to the limits of a launch, (drafts,) bool."""
    return (tiles.threads <= gpu.max_block_threads) & (
        tiles.shared_bytes <= gpu.max_block_shared_bytes
    )
