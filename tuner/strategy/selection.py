"""Which drafts are kept, and which of them are measured next: plain functions of arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How much is kept and measured; the defaults are those that recorded GPU spaces settled."""

    keep: float = 0.2  # part of the drafts
    exploit: float = 0.5  # part of what is measured that promises most; the rest is drawn
    #: What is drawn comes from the best predicted, so many times as many as are kept: what changes
    #: the kept is learned on both sides of their bound.
    reach: float = 2.0
    #: Part of the kept that the law chooses alone. What was learned from few measurements may be
    #: wrong about all drafts of a kind at once, and no measurement would show it.
    hedge: float = 0.3
    caution: float = 0.5  # standard deviations that a draft may be better by, and is kept for that
    optimism: float = 1.0  # the same, and is measured for that

    def kept(self, drafts: int) -> int:
        """How many of so many drafts are kept."""
        return round(self.keep * drafts)


def split(
    seconds: Floats, count: int, *, law: Floats | None = None, hedge: float = 0.0
) -> tuple[Ints, Ints]:
    """Divide drafts into the kept and the rejected: rows of each, best predicted first.

    Args:
        seconds: predicted, (drafts,); measured, where they are known.
        count: drafts to keep.
        law: what the law alone says, (drafts,); needed for a hedge.
        hedge: part of the kept that the law chooses alone.
    """
    order = np.argsort(seconds, kind="stable")
    if law is None or hedge == 0.0 or count >= len(order):
        return order[:count], order[count:]
    trusted = order[: count - math.floor(hedge * count)]
    is_kept = np.zeros(len(order), dtype=bool)
    is_kept[trusted] = True
    by_law = np.argsort(law, kind="stable")
    is_kept[by_law[~is_kept[by_law]][: count - len(trusted)]] = True
    return order[is_kept[order]], order[~is_kept[order]]


def next_trials(
    seconds: Floats, doubt: Floats, count: int, *, policy: Policy, rng: np.random.Generator
) -> Ints:
    """Rows to measure next, the most promising first, then some that are drawn.

    A draft promises the least time that is within its doubt (the lower confidence bound of
    Srinivas et al., ICML 2010): else a batch goes to near twins of what is known.

    Args:
        seconds: predicted, (drafts,); infinite where there is nothing to learn any more.
        doubt: standard deviation of log2 of them, (drafts,).
        count: rows to return, less if there are not so many.
        policy: of the whole space.
        rng: draws.
    """
    open_ = np.isfinite(seconds)
    count = min(count, int(open_.sum()))
    promise = seconds * np.exp2(-policy.optimism * doubt)
    best = np.argsort(promise, kind="stable")[: math.ceil(policy.exploit * count)]
    among = max(count, round(policy.reach * policy.keep * len(seconds)))
    pool = np.argsort(seconds, kind="stable")[: min(among, int(open_.sum()))]
    others = rng.permutation(pool[~np.isin(pool, best)])[: count - len(best)]
    return np.concatenate([best, others])
