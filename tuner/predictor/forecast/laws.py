"""The law of each class of kernels, and the roofline that is told where no law was trained."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.forecast.chip import Chip
from tune_farm.tuner.predictor.forecast.generation import tensor_factor
from tune_farm.tuner.predictor.forecast.kernels import KernelKind
from tune_farm.tuner.predictor.forecast.library import library_seconds
from tune_farm.tuner.predictor.forecast.power import sustained_flops
from tune_farm.tuner.predictor.forecast.rows import norm_seconds, softmax_seconds
from tune_farm.tuner.predictor.forecast.sizes import Sizes
from tune_farm.tuner.predictor.forecast.streams import dram_rate, l2_rate, stream_seconds

Floats = NDArray[np.float64]
Numbers = Mapping[str, float]

PRODUCTS = frozenset({KernelKind.BATCHED_PRODUCT, KernelKind.LINEAR})
#: The part of a roof that a kernel reaches at least, however it is shaped: one element of a tile of
#: 128 x 128. At most it reaches all.
_LEAST_USE = 2.0**-14


def law_seconds(kind: KernelKind, sizes: Sizes, chip: Chip, numbers: Numbers) -> Floats:
    """Seconds on the device, (kernels,); utilization is bounded above and below."""
    match kind:
        case KernelKind.BATCHED_PRODUCT | KernelKind.LINEAR:
            is_batched = kind is KernelKind.BATCHED_PRODUCT
            seconds = library_seconds(sizes, chip, numbers, is_batched=is_batched)
            roof = sizes.flops / chip.peak_flops
        case KernelKind.SOFTMAX:
            seconds = softmax_seconds(sizes, chip, numbers)
            roof = sizes.moved_bytes / l2_rate(chip, {"link": 1.0})
        case KernelKind.LAYER_NORM:
            seconds = norm_seconds(sizes, chip, numbers)
            roof = sizes.moved_bytes / l2_rate(chip, {"link": 1.0})
        case _:
            seconds = stream_seconds(sizes, chip, numbers)
            roof = sizes.moved_bytes / l2_rate(chip, {"link": 1.0})
    longest = roof_seconds(kind, sizes, chip) / _LEAST_USE + numbers["ramp_seconds"] * 100
    return np.clip(seconds, roof, longest)


def is_power_bound(kind: KernelKind, chip: Chip, numbers: Numbers) -> bool:
    """Whether the board's power holds back what the lanes could do."""
    return kind in PRODUCTS and sustained_flops(chip, numbers) < chip.peak_flops


def roof_seconds(kind: KernelKind, sizes: Sizes, chip: Chip, *, is_half: bool = False) -> Floats:
    """The physical limit, (kernels,): peak multiply-adds, or each byte once at the peak of DRAM.

    Args:
        kind: of all kernels.
        sizes: of each.
        chip: where.
        is_half: operands of 16 bits: products run on tensor cores, where there are any.
    """
    memory = sizes.moved_bytes / chip.dram_bytes_per_second
    if kind not in PRODUCTS:
        return np.asarray(memory)
    factor = tensor_factor(chip) if is_half else 1.0
    return np.maximum(memory, sizes.flops / (chip.peak_flops * factor))


def sustained_roof_seconds(
    kind: KernelKind, sizes: Sizes, chip: Chip, numbers: Numbers, *, is_half: bool = False
) -> Floats:
    """The roofline, (kernels,), at the rates that DRAM and the board's power sustain."""
    memory = sizes.moved_bytes / dram_rate(chip, numbers)
    if kind not in PRODUCTS:
        return np.asarray(numbers["ramp_seconds"] + memory)
    factor = tensor_factor(chip) if is_half else 1.0
    flops = min(chip.peak_flops, sustained_flops(chip, numbers)) * factor
    return np.asarray(numbers["ramp_seconds"] + np.maximum(memory, sizes.flops / flops))
