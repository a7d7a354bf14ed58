"""How well predictions ranked what was measured: asked of every run, never assumed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tune_farm.tuner.types import Purpose, Record

#: Measured candidates of a task below which a rank correlation says nothing.
_LEAST = 8
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
    )


def _spearman(groups: list[list[Record]]) -> float | None:
    from scipy import stats

    weights, correlations = [], []
    for group in groups:
        predicted = [record.predicted_seconds for record in group]
        measured = [record.seconds for record in group]
        if len(set(predicted)) > 1 and len(set(measured)) > 1:
            correlations.append(float(stats.spearmanr(predicted, measured).statistic))
            weights.append(len(group))
    return float(np.average(correlations, weights=weights)) if correlations else None


def _best_of(group: list[Record]) -> list[Record]:
    ordered = sorted(group, key=lambda record: record.seconds or 0.0)
    return ordered[: max(1, round(_BEST_PART * len(ordered)))]
