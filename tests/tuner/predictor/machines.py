"""Processors for tests, and what a law sees on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tune_farm.tuner.predictor.gpu_tiles import GpuTiles
from tune_farm.tuner.predictor.machine import Cpu, Gpu

CPU = Cpu(
    cores=1,
    clock_hertz=3e9,
    vector_bytes=32,
    vector_registers=16,
    fused_multiply_adds=2,
    loads=2,
    latency_cycles=4.0,
    forward_cycles=14.0,
    window=224,
    cache_sets=(64, 1024, 32768),
    cache_bytes=(32 << 10, 512 << 10, 32 << 20),
    refill_bytes_per_cycle=(32.0, 12.0, 4.0),
)

#: One like a large Ampere device; round numbers.
GPU = Gpu(
    sms=100,
    total_sms=100,
    clock_hertz=1.5e9,
    fused_multiply_adds=128,
    max_threads=1536,
    max_blocks=16,
    max_block_threads=1024,
    registers=65536,
    max_thread_registers=255,
    shared_bytes=100 << 10,
    max_block_shared_bytes=99 << 10,
    l2_bytes=6 << 20,
    l2_bytes_per_second=2.5e12,
    dram_bytes_per_second=1e12,
)


def gpu_tiles(**changes: float) -> GpuTiles:
    """Tiles of one draft, of a 128 x 128 tile of a matrix product; each field may be changed."""
    fields = {
        "blocks": 1000.0,
        "threads": 256.0,
        "registers": 96.0,
        "shared_bytes": 32768.0,
        "flops": 2.0 * 128 * 128 * 4096,
        "accumulators": 64.0,
        "global_bytes": 4.0 * 256 * 4096,
        "unique_bytes": 2e8,
        "shared_traffic_bytes": 16.0 * 256 * 4096,
        "loads": 4.0 * 4096,
        "vector_bytes": 16.0,
        "code": 300.0,
    }
    assert changes.keys() <= fields.keys(), changes
    arrays: Any = {name: np.array([value]) for name, value in (fields | changes).items()}
    return GpuTiles(**arrays)
