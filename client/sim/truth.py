"""How long a schedule takes on a GPU that does not exist.

A law of waves, tiles and bounded utilization, as NeuSight's (Lee et al., ASPLOS 2025): a tile takes
its roofline over a utilization that rises with what is in flight. It is written apart from the law
that ranks drafts, and every schedule deviates from it in its own way, so that a predictor has
something to learn and to be wrong about.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np

from tune_farm.tuner.predictor.gpu_laws import gpu_tiles
from tune_farm.tuner.predictor.gpu_tiles import GpuTiles
from tune_farm.tuner.predictor.machine import Gpu
from tune_farm.tuner.predictor.occupancy import resident_blocks
from tune_farm.tuner.space.design import DesignSpace
from tune_farm.tuner.types import Candidate, Task

#: Bounds of the utilization of a tile's roofline.
_LEAST_USE, _MOST_USE = 0.03, 0.9
#: A schedule that no law covers, and the untuned one: so many times the operator's roofline.
_UNCOVERED, _UNTUNED = 4.0, 12.0


class Truth:
    """The times of one share's schedules; opens each task's space once (TVM, a second or so)."""

    def __init__(self, gpu: Gpu, *, surprise: float, launch_seconds: float) -> None:
        self._gpu = gpu
        self._surprise = surprise
        self._launch_seconds = launch_seconds
        self._spaces: dict[str, DesignSpace] = {}

    def seconds(self, task: Task, candidate: Candidate) -> float:
        """The true time of one schedule, without noise."""
        if candidate.is_untuned:
            return _UNTUNED * self._roofline(task) + self._launch_seconds
        law = self._law(task, candidate)
        return law * math.exp(self._surprise * deviation(candidate.id)) + self._launch_seconds

    def _law(self, task: Task, candidate: Candidate) -> float:
        space = self._spaces.get(task.id) or self._spaces.setdefault(
            task.id, DesignSpace(task, seed=0)
        )
        located = space.locate(candidate)
        if located is not None:
            plot, genes = located
            tiles = gpu_tiles(space.plots[plot], genes[None])
            if tiles is not None:
                return sum(tile_seconds(each, self._gpu) for each in tiles)
        return _UNCOVERED * self._roofline(task)

    def _roofline(self, task: Task) -> float:
        gpu = self._gpu
        peak = 2 * gpu.fused_multiply_adds * gpu.sms * gpu.clock_hertz
        return max(task.flops / peak, task.bytes_moved / gpu.dram_bytes_per_second)


def tile_seconds(tiles: GpuTiles, gpu: Gpu) -> float:
    """Seconds of one kernel's first draft: waves times a tile's roofline over its utilization."""
    held = float(resident_blocks(tiles, gpu)[0])
    if held < 1:
        return math.inf
    blocks, threads = float(tiles.blocks[0]), float(tiles.threads[0])
    waves = math.ceil(blocks / (gpu.sms * held))
    peak = gpu.multiply_adds(on_tensor_cores=tiles.on_tensor_cores)
    lanes = math.ceil(threads / gpu.warp) * gpu.warp / threads
    compute = float(tiles.flops[0]) / 2 / peak * lanes * held / gpu.clock_hertz
    shared = (
        float(tiles.shared_traffic_bytes[0]) * held / gpu.shared_bytes_per_cycle / gpu.clock_hertz
    )
    # Memory is everybody's: an SM's part of it, as long as all of them ask.
    memory = float(tiles.global_bytes[0]) * held * gpu.sms / gpu.l2_bytes_per_second
    in_flight = held * threads / gpu.max_threads * math.sqrt(max(1.0, float(tiles.accumulators[0])))
    use = min(_MOST_USE, max(_LEAST_USE, 1 - 0.6 / (0.6 + in_flight) - 0.1 / waves))
    dram = float(tiles.unique_bytes[0]) / gpu.dram_bytes_per_second
    return max(waves * max(compute, shared, memory) / use, dram / _MOST_USE)


def deviation(text: str) -> float:
    """A standard normal number that belongs to a text."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    return float(np.random.default_rng(seed).standard_normal())
