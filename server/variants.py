"""Which variant of an operator goes into the model: decided by measured times; pure.

A variant computes one operator in its own way, by one task or by several in turn. All variants that
may win are tuned until one is clearly behind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

#: Before so many trials of each of its tasks a variant is not given up: the first few schedules
#: are up to three times as slow as those that are found next.
_LEAST_TRIALS = 16
#: After t trials a variant may be slower by this over t: half at 16, a quarter at 32.
_PATIENCE_TRIALS = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to compute an operator."""

    name: str  # for people: "direct", "winograd 4x4"
    tile: int | None  # outputs of a Winograd tile along each dimension; None: as lowered
    tasks: tuple[str, ...]  # ids; each is called once when the operator is


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """The variants of one operator, two at least."""

    functions: tuple[str, ...]  # of the lowered module: all that are this operator
    variants: tuple[Variant, ...]  # first the operator as lowered

    def __post_init__(self) -> None:
        assert self.variants[0].tile is None, self
        assert len(self.variants) > 1, self


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is known of one task."""

    seconds: float | None  # of one call as things stand, tuned or not
    trials: int  # whose outcome is known
    is_open: bool  # it could be given more


Standings = Callable[[str], Standing]  # by task id


def choose(alternatives: Alternatives, standings: Standings) -> Variant:
    """The fastest of those whose tasks were all measured; the operator as lowered if none was."""
    return min(alternatives.variants, key=lambda variant: seconds_of(variant, standings))


def seconds_of(variant: Variant, standings: Standings) -> float:
    """What one call takes; infinite while one of its tasks was never measured."""
    known = [standings(task).seconds for task in variant.tasks]
    return math.fsum(math.inf if seconds is None else seconds for seconds in known)


def tasks_behind(every: Iterable[Alternatives], standings: Standings) -> frozenset[str]:
    """Tasks that no variant needs which may still win."""
    behind: set[str] = set()
    needed: set[str] = set()
    for alternatives in every:
        best = seconds_of(choose(alternatives, standings), standings)
        for variant in alternatives.variants:
            is_behind = _is_behind(variant, best, standings)
            (behind if is_behind else needed).update(variant.tasks)
    return frozenset(behind - needed)


def tasks_unused(every: Iterable[Alternatives], standings: Standings) -> dict[str, str]:
    """Tasks that are no part of the model with the chosen variants, and why."""
    unused: dict[str, str] = {}
    used: set[str] = set()
    for alternatives in every:
        chosen = choose(alternatives, standings)
        used.update(chosen.tasks)
        for variant in alternatives.variants:
            if variant is not chosen:
                reason = f"{chosen.name} is faster than {variant.name}"
                if math.isinf(seconds_of(variant, standings)):
                    reason = f"{variant.name} was not measured in full: {chosen.name} is used"
                unused.update(dict.fromkeys(variant.tasks, reason))
    return {task: reason for task, reason in unused.items() if task not in used}


def costs_of(costs: Mapping[str, float], every: Iterable[Alternatives]) -> dict[str, float]:
    """Costs by which tasks are begun: what a variant adds comes after every operator as lowered.

    A short budget must not leave an operator as it was because another one is tried twice. Those of
    a variant count together, as its costliest: measured in part it can't be chosen.
    """
    alternatives = tuple(every)
    lowered = {task for each in alternatives for task in each.variants[0].tasks}
    most = max(costs.values(), default=0.0)
    together: dict[str, float] = {}
    for variant in (variant for each in alternatives for variant in each.variants[1:]):
        cost = max(costs[task] for task in variant.tasks) - 2.0 * most - 1.0
        for task in variant.tasks:
            if task not in lowered:
                together[task] = max(cost, together.get(task, cost))
    return dict(costs) | together


def names_of(every: Iterable[Alternatives]) -> dict[str, str]:
    """The variant that each task belongs to; all of them where it is several."""
    names: dict[str, list[str]] = {}
    for variant in (variant for alternatives in every for variant in alternatives.variants):
        for task in variant.tasks:
            known = names.setdefault(task, [])
            if variant.name not in known:
                known.append(variant.name)
    return {task: ", ".join(found) for task, found in names.items()}


def tiles_of(every: Iterable[Alternatives], standings: Standings) -> dict[str, int]:
    """The Winograd tile of each function that is replaced in the model."""
    chosen = {alternatives: choose(alternatives, standings) for alternatives in every}
    return {
        function: variant.tile
        for alternatives, variant in chosen.items()
        if variant.tile is not None
        for function in alternatives.functions
    }


def _is_behind(variant: Variant, best: float, standings: Standings) -> bool:
    """Whether a variant is so much slower than the best that more trials won't turn it."""
    known = [standings(task) for task in variant.tasks]
    seconds = seconds_of(variant, standings)
    if math.isinf(seconds):
        # One of its tasks can't be measured any more: it will never be chosen.
        lost = any(each.seconds is None and not each.is_open for each in known)
        return lost and math.isfinite(best)
    trials = min((each.trials for each in known if each.is_open), default=math.inf)
    return trials >= _LEAST_TRIALS and seconds > (1.0 + _PATIENCE_TRIALS / trials) * best
