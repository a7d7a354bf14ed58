"""How well predictions ranked what was measured: asked of every run, never assumed.

What is measured is chosen by the predictions that are judged: nearly all of it was predicted to be
fast, and among nearly equal drafts noise decides. So a rank correlation of the measured alone is
low even where the predictor tells fast from slow very well. Two more numbers stand beside it: what
the audit, drawn from the rejected at random, found to have been missed; and the rank correlation of
all drafts, kept and rejected, each kind of pair counted as often as it is among them.
"""

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
#: Pairs of a kind below which nothing is said of all drafts.
_LEAST_PAIRS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Of one run."""

    spearman: float | None  # mean over tasks, each weighted with its candidates; None: too few
    #: Part of the best tenth of each task's measured candidates that the predictor had kept; the
    #: others were found by the audit. None without an audit.
    recall_at_keep: float | None
    #: By what part the best of the kept was slower than the best of all that was measured: mean
    #: over tasks with an audit. A lower bound: the audit is a sample. None without an audit.
    regret: float | None
    #: Kendall's tau of all drafts of a task, estimated from pairs of measured ones: both kept, one
    #: of each, both rejected, weighted as often as such pairs are among the drafts. None: too few.
    kendall_all: float | None
    audited: int  # measured candidates that the predictor had rejected
    chance_tasks: int  # tasks that were ranked no better than chance would


def quality_of(records: Iterable[Record], *, keep: float) -> Quality:
    """Judge the predictions of a run's records; what was not predicted or measured is left out.

    Args:
        records: of the run.
        keep: the part of the drafts that was kept.
    """
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
        regret=_regret(by_task.values()),
        kendall_all=_kendall_all(by_task.values(), keep),
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


def _regret(groups: Iterable[list[Record]]) -> float | None:
    lost = []
    for group in groups:
        kept, audited = _seconds(group, Purpose.SEARCH), _seconds(group, Purpose.AUDIT)
        if kept and audited:
            lost.append(min(kept) / min(kept + audited) - 1.0)
    return float(np.mean(lost)) if lost else None


def _seconds(group: Iterable[Record], purpose: Purpose) -> list[float]:
    return [r.seconds for r in group if r.purpose is purpose and r.seconds is not None]


def _kendall_all(groups: Iterable[list[Record]], keep: float) -> float | None:
    """Post-stratified: pairs within a task are pooled over tasks by how many of the two were kept.

    Half of the measured kept are the best by prediction and not a draw from all kept: they make
    pairs of two kept look a little less ordered, and mixed pairs a little more, than they are.
    """
    signs: list[list[float]] = [[], [], []]  # by how many of the pair were kept
    for group in groups:
        predicted, measured = (np.array(values) for values in _pairs(group))
        kept = np.array([record.purpose is Purpose.SEARCH for record in group], dtype=np.int64)
        first, second = np.triu_indices(len(group), k=1)
        agree = np.sign(
            (predicted[first] - predicted[second]) * (measured[first] - measured[second])
        )
        for both, sign in zip(kept[first] + kept[second], agree, strict=True):
            signs[both].append(float(sign))
    weights = (1 - keep) ** 2, 2 * keep * (1 - keep), keep**2
    needed = [(each, weight) for each, weight in zip(signs, weights, strict=True) if weight > 0.0]
    if any(len(each) < _LEAST_PAIRS for each, _ in needed):
        return None
    return float(sum(weight * np.mean(each) for each, weight in needed))


def _best_of(group: list[Record]) -> list[Record]:
    ordered = sorted(group, key=lambda record: record.seconds or 0.0)
    return ordered[: max(1, round(_BEST_PART * len(ordered)))]
