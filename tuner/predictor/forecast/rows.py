"""Seconds of softmax and layer norm: a row is reduced, then written.

PyTorch gives a row to a block of threads, or, for a softmax of at most 1,024 columns, to a warp
that keeps it in registers. A block reads its row once for each reduction and once more to write
the result. L2 answers the later readings as long as it holds the rows of all blocks that run at a
time; beyond that DRAM is read again. A row pays for its reductions in latency, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.forecast.chip import Chip
from tune_farm.tuner.predictor.forecast.generation import (
    WARP,
    mixed_instructions,
    most_threads,
)
from tune_farm.tuner.predictor.forecast.sizes import Sizes
from tune_farm.tuner.predictor.forecast.streams import dram_rate, l2_rate, missed_bytes
from tune_farm.tuner.predictor.roofs import overlapped

Floats = NDArray[np.float64]
Numbers = Mapping[str, float]

#: Longest row that a warp keeps in registers (PyTorch 2.1, PersistentSoftmax.cuh).
WARP_COLUMNS = 1024
#: Threads of a block of layer norm (PyTorch 2.1, layer_norm_kernel.cu).
_NORM_THREADS = 128.0
#: Cycles of a row are those of an SM of Volta's design.
_VOLTAS_INSTRUCTIONS = math.sqrt(128.0 * 64.0)
#: Readings of a row: softmax its maximum, its sum, its result; layer norm its moments, its result.
_SOFTMAX_READS, _NORM_READS = 3.0, 2.0


def softmax_seconds(sizes: Sizes, chip: Chip, numbers: Numbers) -> Floats:
    """Seconds on the device, (kernels,), without what a launch costs on the host."""
    columns = sizes.columns
    by_warp = columns <= WARP_COLUMNS
    # A power of two, at least an eighth of the columns, from a warp to half of 1,024.
    threads = np.exp2(np.ceil(np.log2(np.clip(columns / 8.0, WARP, 512.0))))
    reads = np.where(by_warp, 1.0, _SOFTMAX_READS)
    own = np.where(by_warp, numbers["warp_row_cycles"], numbers["block_row_cycles"])
    each = np.where(by_warp, numbers["warp_cycles"], numbers["block_cycles"])
    padded = np.where(by_warp, np.exp2(np.ceil(np.log2(np.maximum(columns, 1.0)))), columns)
    return _seconds(sizes, chip, numbers, reads, threads, own + each * padded)


def norm_seconds(sizes: Sizes, chip: Chip, numbers: Numbers) -> Floats:
    """Seconds on the device, (kernels,), without what a launch costs on the host."""
    threads = np.full_like(sizes.rows, _NORM_THREADS)
    own = numbers["block_row_cycles"] + numbers["block_cycles"] * sizes.columns
    return _seconds(sizes, chip, numbers, np.full_like(own, _NORM_READS), threads, own)


def _seconds(
    sizes: Sizes, chip: Chip, numbers: Numbers, reads: Floats, threads: Floats, row_cycles: Floats
) -> Floats:
    """From readings of a row, threads of its block, and cycles that it takes an SM."""
    rows = sizes.batch * sizes.rows
    places = np.maximum(np.floor(most_threads(chip) / threads), 1.0)
    sharers = chip.sms if chip.is_instance else chip.total_sms  # of L2: other shares crowd it, too
    running = np.minimum(rows, sharers * places) * sizes.columns * 4.0
    # All of L2: a row is asked for by one SM alone.
    crowded = (numbers["crowd"] * running / chip.l2_bytes) ** numbers["crowd_steepness"]
    missed = crowded / (1.0 + crowded)
    again = 4.0 * rows * sizes.columns * (reads - 1.0)
    dram = missed_bytes(sizes.moved_bytes, chip, numbers) + again * missed
    l2 = sizes.moved_bytes + again
    # A row's own latency is hidden by the other rows of its SM, as many as there are.
    busiest = np.ceil(rows / chip.sms)
    latency = np.ceil(busiest / places) * numbers["latency_cycles"]
    row = row_cycles * _VOLTAS_INSTRUCTIONS / mixed_instructions(chip)
    compute = (busiest * row + latency) / chip.clock_hertz
    return numbers["ramp_seconds"] + overlapped(
        numbers["overlap"],
        dram / (dram_rate(chip, numbers) * numbers["row_speed"]),
        l2 / l2_rate(chip, numbers),
        compute,
    )
