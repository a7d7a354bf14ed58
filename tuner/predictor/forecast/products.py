"""Seconds of a matrix product in FP32 outside tensor cores, for given tiles and splits.

(B, M, N) x (B, N, K): N is summed over. Blocks of the grid go to SMs in rounds; a block takes the
lanes, the issue slots or the shared-memory traffic of its tile, whichever is longest, and cycles to
begin and to end. Where a scheduler has 32 lanes (Pascal, Ada, Hopper) multiply-adds alone fill its
issue slots, so that each load of the inner loop costs a multiply-add; where it has 16 (Volta,
Turing, A100) every second slot is free. L2 and DRAM bound the kernel as a whole; so does the power
of the board (T4, P4 and L4 cannot feed all their lanes at once).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.forecast.chip import Chip
from tune_farm.tuner.predictor.forecast.generation import (
    LINK_BYTES,
    PARTITIONS,
    SHARED_BYTES,
    WARP,
    most_threads,
    operand_conflicts,
    schedulers,
)
from tune_farm.tuner.predictor.forecast.power import sustained_flops
from tune_farm.tuner.predictor.forecast.sizes import Sizes
from tune_farm.tuner.predictor.forecast.streams import dram_rate
from tune_farm.tuner.predictor.roofs import half_used, moved_once, overlapped, rounds

Floats = NDArray[np.float64]
Numbers = Mapping[str, float]

_STEP = 8.0  # of the loop over N
#: Multiply-adds of a thread are on a square of this side, in the large kernels of cuBLAS.
_REGISTER_TILE = 8.0
#: Elements of C that the registers of an SM hold as sums: half of 65,536.
_HELD_SUMS = 32768.0
#: Warps of a block of 128 x 128, times the side of a thread's square.
_LARGE_IN_FLIGHT = 64.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How a library cuts a product; arrays that broadcast with sizes, float64."""

    rows: Floats  # of a tile, along M
    columns: Floats  # along K
    splits: Floats  # of N, each a block of its own

    @property
    def area(self) -> Floats:
        """Sums of one tile."""
        return self.rows * self.columns

    @property
    def threads(self) -> Floats:
        """Of a block, as in the kernels of cuBLAS: narrow tiles have 128 or 256."""
        narrow = np.where(self.area <= 1024.0, 128.0, 256.0)
        return np.where(np.minimum(self.rows, self.columns) <= 32.0, narrow, self.area / 64.0)

    @property
    def register_tile(self) -> Floats:
        """Side of the square of sums that a thread has.

        The smallest tiles are cut in four along N ("sliced1x4"), so that a thread has more.
        """
        each = self.area / self.threads
        return np.asarray(np.sqrt(np.where(each < 16.0, 4.0 * each, each)))


def product_seconds(sizes: Sizes, cut: Cut, chip: Chip, numbers: Numbers) -> Floats:
    """Seconds on the device, of the shape that sizes and cut broadcast to.

    What a launch costs on the host is not in them.
    """
    tiles = rounds(sizes.rows, cut.rows) * rounds(sizes.columns, cut.columns)
    blocks = sizes.batch * tiles * cut.splits
    depth = _STEP * np.ceil(sizes.depth / cut.splits / _STEP)
    busiest = rounds(blocks, float(chip.sms))
    places = np.floor(np.minimum(_HELD_SUMS / cut.area, most_threads(chip) / cut.threads))
    held = np.minimum(busiest, np.maximum(1.0, places))
    use = _use(cut, held, numbers)
    inner = _inner_cycles(cut, depth, chip, numbers) / numbers["inner"]
    end = numbers["end_cycles"] + numbers["store"] * 4.0 * cut.area / LINK_BYTES
    cycles = busiest * (inner / use + end) + numbers["begin_cycles"] * rounds(busiest, held)
    compute = cycles / chip.clock_hertz
    # Power is held to its limit on average: what rests between kernels may be spent in them.
    padded = 2.0 * blocks * cut.area * depth  # zeros take power, too
    powered = np.maximum(padded / sustained_flops(chip, numbers) - numbers["rest_seconds"], 0.0)
    # A tile at the edge loads what there is.
    own_rows = sizes.rows / rounds(sizes.rows, cut.rows)
    own_columns = sizes.columns / rounds(sizes.columns, cut.columns)
    asked = 4.0 * blocks * ((own_rows + own_columns) * depth + own_rows * own_columns)
    l2 = asked / (chip.sms * LINK_BYTES * chip.clock_hertz * numbers["link"])
    dram = _dram_bytes(sizes, cut, asked, tiles, held * chip.sms, chip) / dram_rate(chip, numbers)
    seconds = overlapped(
        numbers["overlap"], overlapped(numbers["power_overlap"], compute, powered), l2, dram
    )
    # Partial sums are added up in a second launch.
    summed = np.where(cut.splits > 1, numbers["split_seconds"], 0.0)
    return np.asarray(numbers["ramp_seconds"] + summed + seconds)


def _use(cut: Cut, held: Floats, numbers: Numbers) -> Floats:
    """The part of an SM that blocks keep busy; all of it is what two large blocks do.

    A block on its own hides its latencies badly, the more it has warps and sums of a thread the
    better; and fewer warps than schedulers leave some idle.
    """
    warps = held * cut.threads / WARP
    in_flight = warps * cut.register_tile / _LARGE_IN_FLIGHT
    use = half_used(in_flight, numbers["half_used"])
    use = np.minimum(use / half_used(np.asarray(2.0), numbers["half_used"]), 1.0)
    return np.asarray(use * np.minimum(warps / PARTITIONS, 1.0))


def _inner_cycles(cut: Cut, depth: Floats, chip: Chip, numbers: Numbers) -> Floats:
    """Of the loop over N of one block, with the SM to itself."""
    multiply_adds = cut.area * depth
    # A smaller square asks for more operands, and each of them for fewer multiply-adds.
    loads = (_REGISTER_TILE / cut.register_tile) ** 2
    instructions = 1.0 + numbers["other"] + numbers["loads"] * loads
    issue = multiply_adds * instructions * operand_conflicts(chip) / (WARP * schedulers(chip))
    lanes = multiply_adds / chip.fp32_lanes
    shared = multiply_adds * 8.0 / cut.register_tile / SHARED_BYTES
    return np.maximum(np.maximum(lanes, issue), shared)


def _dram_bytes(
    sizes: Sizes, cut: Cut, asked: Floats, tiles: Floats, running: Floats, chip: Chip
) -> Floats:
    """What DRAM moves: once, what L2 holds; else, what blocks that run together ask for."""
    results = sizes.rows * sizes.columns
    one = 4.0 * (sizes.rows * sizes.depth + sizes.depth * sizes.columns + results)
    unique = sizes.batch * (one + np.where(cut.splits > 1, 8.0, 0.0) * results)
    together = np.maximum(np.minimum(tiles * cut.splits, running), 1.0)
    moved = moved_once(asked, together, unique)
    return np.where(one <= chip.l2_bytes / 2, unique, moved)
