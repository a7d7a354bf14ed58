"""A processor for tests."""

from __future__ import annotations

from tune_farm.tuner.predictor.machine import Cpu

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
