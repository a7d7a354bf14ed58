"""Ways to choose the fastest of a few finalists; each gets a function that measures one once."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from tune_farm.tuner.measure.race import Race, Sample

Time = Callable[[int], float]


def best_single_sample(finalists: Sequence[int], time: Time) -> int:
    """What a tuner does that keeps the smallest time it has seen."""
    return min(finalists, key=time)


def best_median(finalists: Sequence[int], time: Time, samples: int) -> int:
    """The median of several samples of each, one finalist after the other."""
    return min(
        finalists, key=lambda kernel: statistics.median(time(kernel) for _ in range(samples))
    )


def race(finalists: Sequence[int], time: Time, rounds: int) -> int:
    """As the product does; the first finalist is the incumbent."""
    incumbent, *others = finalists
    contest = Race(others, rounds=rounds)
    before = time(incumbent)
    while (key := contest.next_challenger()) is not None:
        seconds, after = time(key), time(incumbent)
        contest.add(Sample(key=key, seconds=seconds, before_seconds=before, after_seconds=after))
        before = after
    ratios = {incumbent: 1.0}
    for kernel in others:
        ratio = contest.ratio(kernel)
        if ratio is not None:
            ratios[kernel] = ratio
    return min(ratios, key=lambda kernel: ratios[kernel])
