"""The time of a draft on CPU cores: a roofline of its loop body, its caches and its waves.

A core runs straight-line bodies. One takes as long as its busiest unit needs: multiply-adds, loads,
stores, or the latency of one accumulator's chain (the roofline of Williams et al., CACM 2009, with
the core's issue ports as roofs). Refills of each cache overlap with that in part. The share's cores
take the jobs in waves, as blocks do on SMs in NeuSight (ASPLOS 2025).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.cpu_tiles import CpuTiles
from tune_farm.tuner.predictor.loop_body import LoopBody
from tune_farm.tuner.predictor.machine import Cpu

Floats = NDArray[np.float64]

#: Cycles that a loop's end costs beside the work of its body.
_LOOP_CYCLES = 0.5
#: How much worse the compiler's vectors are than those that the schedule names.
_BY_COMPILER = 1.3
#: Cycles of one element where a stage is computed at each use, its bounds checks included.
_INLINED_CYCLES = 0.5
#: Exponent of the norm that adds times which overlap in part: 1 = not at all, ∞ = wholly.
_OVERLAP = 3.0


def cpu_seconds(tiles: CpuTiles, cpu: Cpu) -> Floats:
    """Predict the seconds of drafts, (drafts,) float64, before anything is learned."""
    body = tiles.body
    checks = tiles.inlined * _INLINED_CYCLES * body.loads * cpu.vector_bytes / 4
    compute = body.executions * (_body_cycles(body, cpu) + _LOOP_CYCLES + checks)
    refill = sum(
        size / speed
        for size, speed in zip(tiles.refill_bytes, cpu.refill_bytes_per_cycle, strict=True)
    )
    stages = tiles.stage_elements * 4 / cpu.refill_bytes_per_cycle[0]
    epilogue = 2 * tiles.epilogue_bytes / cpu.refill_bytes_per_cycle[0]
    cycles = (compute**_OVERLAP + refill**_OVERLAP) ** (1 / _OVERLAP) + stages + epilogue
    waves = np.ceil(tiles.jobs / cpu.cores) / (tiles.jobs / cpu.cores)
    return np.asarray(cycles * waves / (cpu.cores * cpu.clock_hertz))


def _body_cycles(body: LoopBody, cpu: Cpu) -> Floats:
    """Cycles of one execution."""
    excess = np.maximum(0.0, body.accumulators + body.operands - cpu.vector_registers)
    spilled = np.minimum(excess, body.accumulators) * body.depth
    kept = body.accumulators / body.chain  # loaded and stored where a chain begins and ends
    # An accumulator in memory: each step waits for the store of the one before.
    latency = np.where(excess > 0, cpu.latency_cycles + cpu.forward_cycles, cpu.latency_cycles)
    busiest = np.maximum.reduce(
        [
            body.multiply_adds / cpu.fused_multiply_adds,
            (body.loads + spilled + kept) / cpu.loads,
            spilled + kept,
            latency * body.depth,
        ]
    )
    return np.asarray(busiest * np.where(body.by_compiler > 0, _BY_COMPILER, 1.0))
