"""How a library cuts a product on a GPU that is not at hand: tiles and splits.

cuBLAS ships few kernels for FP32 outside tensor cores, other ones for each generation, and takes
about the fastest of them. So does this: the law is asked about each, and by how much a library's
heuristics miss the best is a number of the fit. Batched products have no splits, and before Volta
and with Ampere and Ada a single tile.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.forecast.chip import Chip
from tune_farm.tuner.predictor.forecast.products import Cut, product_seconds
from tune_farm.tuner.predictor.forecast.sizes import Sizes
from tune_farm.tuner.predictor.roofs import rounds

Floats = NDArray[np.float64]
Tiles = tuple[tuple[int, int], ...]  # rows along M, columns along K

_SPLITS = (1, 2, 3, 4, 6, 8, 16)
#: Least of N for each split.
_LEAST_DEPTH = 64.0
#: Rounds of the largest tile beyond which blocks are many enough without splits.
_ENOUGH_ROUNDS = 8.0
_LARGEST = 128.0

_PASCAL, _VOLTA, _AMPERE, _HOPPER = (6, 0), (7, 0), (8, 0), (9, 0)
_ANY_NARROW: Tiles = ((128, 32), (32, 128), (32, 32), (32, 64))
#: By the least compute capability: the tiles in names of kernels that profilers saw.
_BATCHED: Mapping[tuple[int, int], Tiles] = {
    _PASCAL: ((64, 128),),
    _VOLTA: ((64, 64), (128, 32), (32, 128), (64, 128)),
    _AMPERE: ((128, 128),),
    _HOPPER: ((128, 128), (64, 128), (128, 64), (64, 64), (32, 128), (128, 32), (32, 32)),
}
_LINEAR: Mapping[tuple[int, int], Tiles] = {
    _PASCAL: ((128, 32), (32, 128)),
    (6, 1): ((128, 128), (64, 128), (128, 32), (64, 64), (32, 128)),
    _VOLTA: ((128, 128), (64, 128), *_ANY_NARROW),
    (7, 5): ((128, 128), (64, 128), (64, 64), *_ANY_NARROW),
    _AMPERE: ((128, 128), (64, 128), (64, 64), *_ANY_NARROW),
    _HOPPER: ((128, 128), (64, 128), (128, 64), (64, 64), *_ANY_NARROW),
}


def choices(chip: Chip, *, is_batched: bool) -> Cut:
    """What a library may choose from, each array of shape (choices,)."""
    known = _BATCHED if is_batched else _LINEAR
    tiles = known[max(least for least in known if least <= max(chip.generation, _PASCAL))]
    splits = (1,) if is_batched else _SPLITS
    table = np.array([(*tile, split) for split in splits for tile in tiles], dtype=np.float64)
    return Cut(rows=table[:, 0], columns=table[:, 1], splits=table[:, 2])


def library_seconds(
    sizes: Sizes, chip: Chip, numbers: Mapping[str, float], *, is_batched: bool
) -> Floats:
    """Seconds of products as a library would cut them, (kernels,)."""
    asked = _asked(sizes, chip, numbers, is_batched=is_batched)
    return np.asarray(asked.min(axis=1) * (numbers["regret"] if asked.shape[1] > 1 else 1.0))


def chosen(sizes: Sizes, chip: Chip, numbers: Mapping[str, float], *, is_batched: bool) -> Cut:
    """The cut of each product, (kernels,) each."""
    best = _asked(sizes, chip, numbers, is_batched=is_batched).argmin(axis=1)
    all_of_them = choices(chip, is_batched=is_batched)
    return Cut(
        rows=all_of_them.rows[best],
        columns=all_of_them.columns[best],
        splits=all_of_them.splits[best],
    )


def _asked(sizes: Sizes, chip: Chip, numbers: Mapping[str, float], *, is_batched: bool) -> Floats:
    """The law for each choice, (kernels, choices); infinite where splits are out of question."""
    cuts = choices(chip, is_batched=is_batched)
    plain = int((cuts.splits == 1).sum())  # they come first
    seconds = np.full((len(sizes), len(cuts.splits)), np.inf)
    whole = Cut(rows=cuts.rows[:plain], columns=cuts.columns[:plain], splits=cuts.splits[:plain])
    seconds[:, :plain] = product_seconds(sizes.beside(), whole, chip, numbers)
    tiles = rounds(sizes.rows, _LARGEST) * rounds(sizes.columns, _LARGEST)
    is_few = sizes.batch * tiles < _ENOUGH_ROUNDS * chip.sms
    some = np.flatnonzero(is_few & (sizes.depth >= 2 * _LEAST_DEPTH))
    if plain < len(cuts.splits) and len(some):
        parts = Cut(
            rows=cuts.rows[plain:], columns=cuts.columns[plain:], splits=cuts.splits[plain:]
        )
        column = sizes.take(some).beside()
        is_short = column.depth < _LEAST_DEPTH * parts.splits
        told = np.where(is_short, np.inf, product_seconds(column, parts, chip, numbers))
        seconds[some, plain:] = told
    return seconds
