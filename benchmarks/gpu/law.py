"""The predictor's law on the GPU at hand, and how its predictions compare with times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.gpu.lab import Earlier
from benchmarks.gpu.launches import tiles_of
from tune_farm.client.devices.cuda_driver import CudaDevice
from tune_farm.tuner.predictor.gpu_law import gpu_seconds, waves
from tune_farm.tuner.predictor.machine import Gpu

#: CUDA C++ Programming Guide, "Arithmetic Instructions" (float32 multiply-adds of an SM in a cycle)
#: and "Technical Specifications per Compute Capability" (blocks of an SM), where not 128 and 32.
_MULTIPLY_ADDS = {"8.0": 64}
_MOST_BLOCKS = {"8.6": 16, "8.7": 16, "8.9": 24, "12.0": 24}
#: Where nothing was measured. No bandwidth of L2 is published.
_L2_OVER_DRAM = 1.6


def machine_of(device: CudaDevice, earlier: Earlier) -> Gpu:
    """What the law must know of a GPU.

    Args:
        device: as the driver describes it.
        earlier: bandwidths are those that the sentinels reached, if they ran.
    """
    measured = earlier["sentinels"].results if "sentinels" in earlier else {}
    dram = 2 * device.memory_clock_hertz * device.memory_bus_bits / 8
    dram = measured.get("dram_bytes_per_second") or dram
    capability = device.compute_capability
    return Gpu(
        sms=device.sm_count,
        total_sms=device.sm_count,
        clock_hertz=device.clock_hertz,
        fused_multiply_adds=_MULTIPLY_ADDS.get(capability, 128),
        max_threads=device.threads_per_sm,
        max_blocks=_MOST_BLOCKS.get(capability, 32),
        max_block_threads=1024,
        registers=device.registers_per_sm,
        max_thread_registers=255,
        shared_bytes=device.shared_bytes_per_sm,
        max_block_shared_bytes=device.shared_bytes_per_block,
        l2_bytes=device.l2_bytes,
        l2_bytes_per_second=measured.get("l2_bytes_per_second") or _L2_OVER_DRAM * dram,
        dram_bytes_per_second=dram,
    )


def law_seconds(tiles: Mapping[str, float], machine: Gpu) -> float:
    """What the law predicts for one launch."""
    return float(gpu_seconds(tiles_of(tiles), machine)[0])


def wave_count(tiles: Mapping[str, float], machine: Gpu) -> int:
    """Rounds in which a share's SMs take the blocks."""
    return int(waves(tiles_of(tiles), machine)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Of predictions and times of several launches at several shares."""

    rank: float  # Spearman's correlation of the launches of one share, the mean over shares
    ratio: float  # median of time over prediction
    scaling_error: float  # median error of how much longer than at the largest share it takes


def agreement(
    predicted: Sequence[Sequence[float]], measured: Sequence[Sequence[float]]
) -> Agreement:
    """Compare (shares, launches), the largest share last."""
    law, truth = np.log(np.array(predicted)), np.log(np.array(measured))
    scaled = np.abs((truth - truth[-1]) - (law - law[-1]))[:-1]
    ranks = [spearman(*pair) for pair in zip(law, truth, strict=True)]
    return Agreement(
        rank=float(np.mean(ranks)),
        ratio=float(np.exp(np.median(truth - law))),
        scaling_error=float(np.expm1(np.median(scaled))) if scaled.size else 0.0,
    )


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rank correlation of values without ties; 1 where there are fewer than three."""
    if len(first) < 3:
        return 1.0
    both = np.argsort(np.argsort(np.array([first, second]), axis=1), axis=1)
    one, other = both - both.mean(axis=1, keepdims=True)
    return float((one * other).sum() / (one**2).sum())
