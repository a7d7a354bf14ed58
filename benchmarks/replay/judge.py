"""What a recorded space says of ours and of its rivals: recall of what is kept, and the bill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.replay.rivals import (
    learned_seconds,
    search_annealing,
    search_genetic,
    search_learned,
    search_random,
)
from benchmarks.replay.search import (
    Meter,
    Predictor,
    Search,
    best_part,
    kept_of,
    run_search,
    search_ours,
)
from benchmarks.replay.spaces import Space

MEASUREMENTS = 64
#: Configurations after which a search has failed to come within 5%.
CAP = 1000
RIVALS: Mapping[str, Search] = {
    "random": search_random,
    "genetic": search_genetic,
    "annealing": search_annealing,
    "xgboost": search_learned,
}
#: Random measurements that the yardsticks learn from.
YARDSTICKS = (64, 256, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What searches paid to come within 5% of the optimum, one number a seed."""

    seconds: tuple[float, ...]  # charged; of one that failed, until the cap
    hits: tuple[bool, ...]

    @property
    def mean(self) -> float:
        """Mean charged seconds; a lower bound unless all hit."""
        return float(np.mean(self.seconds))

    @property
    def hit_rate(self) -> float:
        """Part of the searches that came within 5%."""
        return float(np.mean(self.hits))

    def __str__(self) -> str:
        bound = "" if all(self.hits) else ">="
        return f"{bound}{self.mean:.0f} ({self.hit_rate:.0%})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All of one space; recalls are parts of the true top 1%, one a seed."""

    space: str
    kernel: str
    configurations: int
    recall: tuple[float, ...]
    kept_within_10: float  # of the configurations within 10% of the optimum, at worst
    law_recall: float  # with nothing measured
    yardsticks: Mapping[str, float]  # mean recall of other ways to rank
    ours: Bill | None = None
    rivals: Mapping[str, Bill]

    @property
    def best_rival(self) -> str:
        """The rival that paid least."""
        return min(self.rivals, key=lambda name: self.rivals[name].mean)

    @property
    def time_ratio(self) -> float | None:
        """Ours over the best rival; None where time was not judged."""
        return None if self.ours is None else self.ours.mean / self.rivals[self.best_rival].mean


def judge(
    space: Space,
    kernel: str,
    *,
    seeds: int,
    times: bool,
    others: Sequence[Space] = (),
    cap: int = CAP,
) -> Outcome:
    """Replay every search of one space; `others` are spaces of the same kernel."""
    recalls, near = [], []
    close = np.flatnonzero(space.within(0.10))
    for seed in range(seeds):
        predictor = Predictor(space)
        meter = run_search(search_ours(predictor), Meter(space, MEASUREMENTS), seed)
        kept = kept_of(predictor, meter)
        recalls.append(_part_in(space.top, kept))
        near.append(_part_in(close, kept))
    return Outcome(
        space=space.name,
        kernel=kernel,
        configurations=len(space.seconds),
        recall=tuple(recalls),
        kept_within_10=min(near),
        law_recall=_part_in(space.top, best_part(Predictor(space).law)),
        yardsticks={
            **{f"xgb_{count}": _learned_recall(space, count, seeds) for count in YARDSTICKS},
            **({"other_gpu": _other_recall(space, others)} if others else {}),
        },
        ours=_bill(space, None, seeds, cap) if times else None,
        rivals={name: _bill(space, rival, seeds, cap) for name, rival in RIVALS.items()}
        if times
        else {},
    )


def _bill(space: Space, rival: Search | None, seeds: int, cap: int) -> Bill:
    """Run one search of a space; ours if no rival is named."""
    meters = [
        run_search(
            rival or search_ours(Predictor(space)), Meter(space, cap, space.within(0.05)), seed
        )
        for seed in range(seeds)
    ]
    return Bill(
        seconds=tuple(meter.charged_seconds for meter in meters),
        hits=tuple(meter.is_hit for meter in meters),
    )


def _learned_recall(space: Space, count: int, seeds: int) -> float:
    """Mean recall of trees that learned from random measurements, at the same keep."""
    found = []
    for seed in range(seeds):
        rows = np.random.default_rng(seed).permutation(len(space.seconds))[:count]
        measured = {int(row): float(space.seconds[row]) for row in rows}
        expected = learned_seconds(space.decisions, measured)
        expected[rows] = space.seconds[rows]
        found.append(_part_in(space.top, best_part(expected)))
    return float(np.mean(found))


def _other_recall(space: Space, others: Sequence[Space]) -> float:
    """Recall of another device's recorded times as the order: of the device that serves best."""
    found = []
    for other in others:
        known = dict(zip(map(tuple, other.parameters), other.seconds, strict=True))
        there = np.array([known.get(tuple(row), np.inf) for row in space.parameters])
        found.append(_part_in(space.top, best_part(there)))
    return max(found)


def _part_in(rows: NDArray[np.int64], kept: NDArray[np.int64]) -> float:
    return float(np.isin(rows, kept).mean())
