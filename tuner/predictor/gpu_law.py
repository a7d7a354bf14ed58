"""The time of a draft on the SMs of a share: waves of blocks, each as long as its busiest unit.

Latency is waves over SMs times the time of a tile, and a tile takes its roofline over a
utilization that is bounded above and below (NeuSight: Lee et al., ASPLOS 2025). Roofs of an SM:
multiply-adds, shared memory with L1, load/store units, its link to L2 (Williams et al., CACM 2009).
Warps that are not full, and warps that the four schedulers cannot share evenly, lengthen the first
(the penalties of Pruner: Qiao et al., ASPLOS 2025). L2 and DRAM serve all SMs, so they bound the
kernel as a whole and not a wave.

The SMs are those of the share: with fewer of them the last wave fills up differently, and memory
is shared by fewer, so that the order of drafts changes with the share.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.gpu_tiles import GpuTiles
from tune_farm.tuner.predictor.machine import Gpu
from tune_farm.tuner.predictor.occupancy import most_registers, resident_blocks
from tune_farm.tuner.predictor.roofs import half_used, moved_once, overlapped, rounds

Floats = NDArray[np.float64]

#: Exponents of the norms that add times which overlap in part (1 = not at all, infinity = wholly):
#: of the units of an SM, and of its work with the traffic of all SMs.
_UNITS_OVERLAP = 2.0
_MEMORY_OVERLAP = 3.0
#: Bounds of the utilization: a kernel that runs at all makes some progress, none is perfect.
_LEAST_USE, _MOST_USE = 0.05, 0.95
#: Warps, times the root of a thread's independent multiply-adds, at which an SM is half used:
#: what is in flight hides latency (Little's law; Volkov, "Better performance at lower occupancy").
_HALF_USED = 4.0
#: Independent multiply-adds of a thread beyond which more of them hide nothing.
_MOST_INDEPENDENT = 8.0
#: Bytes a cycle between an SM and L2 (measured on Volta, Turing and Ampere alike).
_LINK_BYTES = 64.0
#: A spilled register is stored and loaded again in each step of its accumulation.
_SPILL_MOVES = 2.0


def gpu_seconds(tiles: GpuTiles, gpu: Gpu) -> Floats:
    """Predict the seconds of drafts, (drafts,) float64; infinite where no block fits an SM."""
    resident = resident_blocks(tiles, gpu)
    busiest = rounds(tiles.blocks, gpu.sms)  # blocks of the SM that has most
    held = np.maximum(1.0, np.minimum(resident, busiest))
    full, tail = np.floor(busiest / held), busiest % held
    cycles = full * _wave_cycles(tiles, gpu, held)
    cycles += np.where(tail > 0, _wave_cycles(tiles, gpu, np.maximum(tail, 1.0)), 0.0)
    compute = cycles / gpu.clock_hertz
    dram = _dram_bytes(tiles, gpu, held) / gpu.dram_bytes_per_second
    l2 = tiles.blocks * tiles.global_bytes / gpu.l2_bytes_per_second
    return np.where(resident > 0, overlapped(_MEMORY_OVERLAP, compute, dram, l2), np.inf)


def waves(tiles: GpuTiles, gpu: Gpu) -> Floats:
    """Rounds in which the share's SMs take the blocks, (drafts,) float64."""
    held = np.maximum(1.0, resident_blocks(tiles, gpu))
    return rounds(rounds(tiles.blocks, gpu.sms), held)


def _wave_cycles(tiles: GpuTiles, gpu: Gpu, held: Floats) -> Floats:
    """Cycles in which one SM finishes the blocks that it holds at a time."""
    warps = np.ceil(tiles.threads / gpu.warp)
    lanes = warps * gpu.warp  # those of a warp that is not full are idle, but taken
    there = held * warps
    even = gpu.partitions * np.ceil(there / gpu.partitions)  # as the busiest scheduler sees it
    peak = gpu.multiply_adds(on_tensor_cores=tiles.on_tensor_cores)
    compute = tiles.flops / 2 * lanes / tiles.threads / peak * even / there
    spilled = _spilled(tiles, gpu)
    shared = (tiles.shared_traffic_bytes + 4 * spilled) / gpu.shared_bytes_per_cycle
    loading = (lanes * tiles.loads + spilled) / gpu.load_lanes
    link = tiles.global_bytes / _LINK_BYTES
    use = _utilization(there, tiles)
    return held * overlapped(
        _UNITS_OVERLAP,
        compute / _utilization(even, tiles),
        np.maximum(shared, loading) / use,
        link / use,
    )


def _utilization(warps: Floats, tiles: GpuTiles) -> Floats:
    """The part of its peak that a unit reaches with so many warps at hand."""
    in_flight = warps * np.sqrt(np.minimum(tiles.accumulators, _MOST_INDEPENDENT))
    return np.clip(half_used(in_flight, _HALF_USED), _LEAST_USE, _MOST_USE)


def _spilled(tiles: GpuTiles, gpu: Gpu) -> Floats:
    """Words of a block that move because accumulators do not fit the registers."""
    excess = np.clip(tiles.registers - most_registers(tiles, gpu), 0.0, tiles.accumulators)
    steps = tiles.flops / 2 / tiles.accumulators  # of all threads
    return np.asarray(_SPILL_MOVES * excess * steps)


def _dram_bytes(tiles: GpuTiles, gpu: Gpu, held: Floats) -> Floats:
    """What DRAM moves: what blocks of one wave ask for in common, it moves once."""
    asked = tiles.blocks * tiles.global_bytes
    together = np.minimum(tiles.blocks, held * gpu.sms)
    moved = moved_once(asked, together, tiles.unique_bytes)
    return np.where(tiles.unique_bytes <= gpu.l2_bytes, tiles.unique_bytes, moved)
