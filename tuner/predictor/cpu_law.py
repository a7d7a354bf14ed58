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
    compute = body.executions * (_group_cycles(body, cpu) + _LOOP_CYCLES + checks)
    refill = sum(
        size / speed
        for size, speed in zip(tiles.refill_bytes, cpu.refill_bytes_per_cycle, strict=True)
    )
    stages = tiles.stage_elements * 4 / cpu.refill_bytes_per_cycle[0]
    epilogue = 2 * tiles.epilogue_bytes / cpu.refill_bytes_per_cycle[0]
    cycles = (compute**_OVERLAP + refill**_OVERLAP) ** (1 / _OVERLAP) + stages + epilogue
    waves = np.ceil(tiles.jobs / cpu.cores) / (tiles.jobs / cpu.cores)
    return np.asarray(cycles * waves / (cpu.cores * cpu.clock_hertz))


def _group_cycles(body: LoopBody, cpu: Cpu) -> Floats:
    """Cycles of one group of outputs."""
    live = body.accumulators * body.groups + body.operands
    # Kept in registers while the reduction around the body runs; else through memory each time.
    is_kept = (body.chain > 1) & (live <= cpu.vector_registers)
    excess = np.maximum(0.0, body.accumulators + body.operands - cpu.vector_registers)
    spilled = np.minimum(excess, body.accumulators) * body.depth
    stored = spilled + np.where(is_kept, body.accumulators / body.chain, body.accumulators)
    busiest = np.maximum.reduce(
        [
            body.multiply_adds / cpu.fused_multiply_adds,
            (body.loads + stored) / cpu.loads,
            stored,
            _waiting(body, is_kept, excess, cpu),
        ]
    )
    return np.asarray(busiest * np.where(body.by_compiler > 0, _BY_COMPILER, 1.0))


def _waiting(body: LoopBody, is_kept: NDArray[np.bool_], excess: Floats, cpu: Cpu) -> Floats:
    """Cycles that a group's results take, over the groups that are computed meanwhile."""
    # An accumulator in memory: each step waits for the store of the one before.
    step = np.where(excess > 0, cpu.latency_cycles + cpu.forward_cycles, cpu.latency_cycles)
    goes_through_memory = ~is_kept & (body.is_updated_once == 0)
    path = step * body.depth + np.where(goes_through_memory, cpu.forward_cycles, 0.0)
    # As many groups as the core holds in flight, if so many do not wait for each other.
    flying = np.maximum(1.0, cpu.window / (body.multiply_adds + body.loads))
    independent = np.where(is_kept, body.groups, body.apart)
    return np.asarray(path / np.minimum(flying, independent))
