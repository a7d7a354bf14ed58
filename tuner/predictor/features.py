"""Dimensionless features of drafts: what the law multiplies, so that what is learned moves along.

Nothing here has a unit: a residual learned on one operator says something about the next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.cpu_tiles import CpuTiles
from tune_farm.tuner.predictor.machine import Cpu

Floats = NDArray[np.float64]


def cpu_features(tiles: CpuTiles, seconds: Floats, cpu: Cpu) -> NDArray[np.float32]:
    """Features of drafts: (drafts, features) float32.

    Args:
        tiles: what the law sees.
        seconds: what it says, (drafts,) float64.
        cpu: the machine that both are for.
    """
    cycles = seconds * cpu.clock_hertz * cpu.cores
    body = tiles.body
    columns = [
        body.lanes,
        body.by_compiler,
        body.ragged,
        _log((body.accumulators + body.operands) / cpu.vector_registers),
        _log(body.depth),
        _log(body.loads / body.multiply_adds),
        _log(body.chain),
        _log(body.code),
        tiles.inlined,
        _log(1 + tiles.jobs / cpu.cores),
        _log(body.executions * body.multiply_adds / cycles),
        *(
            _log(size / speed / cycles)
            for size, speed in zip(tiles.refill_bytes, cpu.refill_bytes_per_cycle, strict=True)
        ),
        _log(1e-6 + tiles.stage_elements / cycles),
        _log(1e-6 + tiles.epilogue_bytes / cycles),
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def _log(values: Floats) -> Floats:
    return np.asarray(np.log2(np.maximum(values, 1e-12)))
