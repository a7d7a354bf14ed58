"""How well predictions ranked what was measured: asked of every run, never assumed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tune_farm.tuner.types import Purpose, Record

#: Measured candidates of a task below which a rank correlation says nothing.
_LEAST = 8
#: Measured candidates of a task below which nothing is called chance.
_LEAST_FOR_CHANCE = 16
_LATEST = 32
#: What counts as the best of a task's measured candidates.
_BEST_PART = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Of one run."""

    spearman: float | None  # mean over tasks, each weighted with its candidates; None: too few
    #: Part of the best tenth of each task's measured candidates that the predictor had kept; the
    #: others were found by the audit. None without an audit.
    recall_at_keep: float | None
    audited: int  # measured candidates that the predictor had rejected
    chance_tasks: int  # tasks that were ranked no better than chance would


def quality_of(records: Iterable[Record]) -> Quality:
    """Judge the predictions of a run's records; what was not predicted or measured is left out."""
    by_task: dict[str, list[Record]] = {}
    for record in records:
        is_trial = record.purpose in (Purpose.SEARCH, Purpose.AUDIT)
        if is_trial and record.seconds is not None and record.predicted_seconds is not None:
            by_task.setdefault(record.candidate.task_id, []).append(record)
    audited = sum(r.purpose is Purpose.AUDIT for group in by_task.values() for r in group)
    best = [record for group in by_task.values() for record in _best_of(group)]
    kept = sum(record.purpose is Purpose.SEARCH for record in best)
    return Quality(
        spearman=_spearman([group for group in by_task.values() if len(group) >= _LEAST]),
        recall_at_keep=kept / len(best) if audited and best else None,
        audited=audited,
        chance_tasks=sum(is_chance(*_pairs(group)) for group in by_task.values()),
    )


def is_chance(predicted: Sequence[float], measured: Sequence[float]) -> bool:
    """Whether predictions of one task ranked its latest candidates no better than chance would.

    A law that is right to a half (a rank correlation of 0.5) is called so in 3 of 100 cases.

    Args:
        predicted: seconds, in the order of measuring; what was learned later counts again.
        measured: seconds of the same candidates.
    """
    predicted, measured = predicted[-_LATEST:], measured[-_LATEST:]
    if len(measured) < _LEAST_FOR_CHANCE:
        return False
    from scipy import stats

    if len(set(predicted)) < 2 or len(set(measured)) < 2:
        return True
    return float(stats.spearmanr(predicted, measured).statistic) <= 0.0


def _pairs(group: Iterable[Record]) -> tuple[list[float], list[float]]:
    pairs = [(r.predicted_seconds, r.seconds) for r in group]
    return [p for p, s in pairs if p and s], [s for p, s in pairs if p and s]


def _spearman(groups: list[list[Record]]) -> float | None:
    from scipy import stats

    weights, correlations = [], []
    for group in groups:
        predicted, measured = _pairs(group)
        if len(set(predicted)) > 1 and len(set(measured)) > 1:
            correlations.append(float(stats.spearmanr(predicted, measured).statistic))
            weights.append(len(group))
    return float(np.average(correlations, weights=weights)) if correlations else None


def _best_of(group: list[Record]) -> list[Record]:
    ordered = sorted(group, key=lambda record: record.seconds or 0.0)
    return ordered[: max(1, round(_BEST_PART * len(ordered)))]
