"""What the GPU law sees of kernels: blocks, threads and the bytes they move; all as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTiles:
    """One draft a row: all arrays are (drafts,) float64."""

    blocks: Floats  # of the grid
    threads: Floats  # of a block
    registers: Floats  # of a thread, estimated
    shared_bytes: Floats  # of a block
    flops: Floats  # of a block, what padding adds included
    accumulators: Floats  # independent multiply-adds of a thread: its register tile
    global_bytes: Floats  # a block asks of L2 and beyond, in whole 32-byte sectors
    unique_bytes: Floats  # of the whole grid: what DRAM must deliver and take at least once
    shared_traffic_bytes: Floats  # a block moves between shared memory and registers
    loads: Floats  # load instructions of a thread, from global and shared memory
    vector_bytes: Floats  # of one thread's global load
    code: Floats  # instructions of the unrolled body
    on_tensor_cores: bool = False  # whether its multiply-adds are theirs
