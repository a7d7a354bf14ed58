"""Seconds of operators that read and write each byte about once: elementwise, copies, embeddings.

Whatever of the operands L2 still holds costs L2's bandwidth only. DRAM reaches a part of its peak
that depends on its kind: GDDR keeps the bits of error correction among the data, HBM beside them;
the first controllers for HBM, Pascal's, reach less of it than later ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.forecast.chip import Chip
from tune_farm.tuner.predictor.forecast.generation import LINK_BYTES, useful_l2_bytes
from tune_farm.tuner.predictor.forecast.sizes import Sizes
from tune_farm.tuner.predictor.roofs import overlapped

Floats = NDArray[np.float64]
Numbers = Mapping[str, float]

_FIRST_AFTER_PASCAL = (7, 0)


def dram_rate(chip: Chip, numbers: Numbers) -> float:
    """Bytes a second that DRAM sustains."""
    if not chip.has_stacked_memory:
        kind = "graphics"
    elif chip.generation < _FIRST_AFTER_PASCAL:
        kind = "early_stacked"
    else:
        kind = "stacked"
    return chip.dram_bytes_per_second * numbers[f"dram_{kind}"]


def l2_rate(chip: Chip, numbers: Numbers) -> float:
    """Bytes a second between L2 and all SMs."""
    return chip.sms * LINK_BYTES * chip.clock_hertz * numbers["link"]


def missed_bytes(moved: Floats, chip: Chip, numbers: Numbers) -> Floats:
    """Bytes that L2 does not hold from whoever came before: few of a small kernel."""
    crowded = moved / (numbers["kept"] * useful_l2_bytes(chip))
    steep = crowded ** numbers["kept_steepness"]
    return np.asarray(moved * steep / (1.0 + steep))


def stream_seconds(sizes: Sizes, chip: Chip, numbers: Numbers) -> Floats:
    """Seconds on the device, (kernels,), without what a launch costs on the host."""
    moved = sizes.moved_bytes
    dram = missed_bytes(moved, chip, numbers) / dram_rate(chip, numbers)
    l2 = moved / l2_rate(chip, numbers)
    lanes = chip.sms * chip.fp32_lanes * chip.clock_hertz
    compute = sizes.instructions * sizes.elements / lanes
    return numbers["ramp_seconds"] + overlapped(numbers["overlap"], dram, l2, compute)
