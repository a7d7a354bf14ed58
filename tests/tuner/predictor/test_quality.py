"""A run's predictions are judged by rank, and by what the audit found among the rejected."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.tuner.records_of import candidate, record_of
from tune_farm.tuner.predictor.quality import Quality, is_chance, quality_of
from tune_farm.tuner.types import Fault, Purpose, Record


def record(
    number: int, predicted: float | None, result: float | Fault, *, audit: bool = False
) -> Record:
    purpose = Purpose.AUDIT if audit else Purpose.SEARCH
    made = record_of(candidate(number), result, purpose=purpose)
    return replace(made, predicted_seconds=predicted)


def test_nothing_predicted_is_no_quality() -> None:
    records = [record(number, None, 1.0 + number) for number in range(20)]

    assert quality_of(records, keep=0.2) == Quality(
        spearman=None,
        recall_at_keep=None,
        regret=None,
        kendall_all=None,
        audited=0,
        chance_tasks=0,
    )


@pytest.mark.parametrize(("sign", "expected"), [(1, 1.0), (-1, -1.0)])
def test_rank_not_scale_counts(sign: int, expected: float) -> None:
    records = [record(n, 100.0 + sign * n, 1e-3 * 2.0**n) for n in range(8)]

    assert quality_of(records, keep=0.2).spearman == pytest.approx(expected)


def test_few_candidates_have_no_rank_and_failures_none_at_all() -> None:
    records = [record(n, 1.0 + n, 1.0 + n) for n in range(7)]
    records += [record(10 + n, 1.0, Fault.RUN_ERROR) for n in range(5)]

    assert quality_of(records, keep=0.2).spearman is None


def test_what_the_audit_found_was_missed() -> None:
    kept = [record(n, 1.0 + n, 2.0 + n) for n in range(18)]
    slow = record(18, 90.0, 50.0, audit=True)
    fast = record(19, 91.0, 1.0, audit=True)

    assert quality_of([*kept, slow, replace(fast, predicted_seconds=None)], keep=0.2) == Quality(
        spearman=1.0,
        recall_at_keep=1.0,
        regret=0.0,
        kendall_all=None,  # no pair of rejected drafts
        audited=1,
        chance_tasks=0,
    )
    missed = quality_of([*kept, slow, fast], keep=0.2)
    assert (missed.recall_at_keep, missed.audited) == (0.5, 2)
    assert missed.regret == pytest.approx(1.0)  # 2 s instead of 1 s


def test_chance_needs_evidence() -> None:
    rising = [float(n) for n in range(16)]
    assert not is_chance(rising[:15], rising[:0:-1])  # too few to say so
    assert is_chance(rising, rising[::-1])
    assert is_chance([1.0] * 16, rising)
    assert not is_chance(rising, rising)
    # What was learned counts again: the latest 32 decide.
    assert not is_chance([*rising[::-1], *rising, *rising], [*rising, *rising, *rising])


def test_tasks_ranked_by_chance_are_counted() -> None:
    wrong = [record(n, 1.0 + n, 100.0 - n) for n in range(16)]

    assert quality_of(wrong, keep=0.2).chance_tasks == 1
    assert quality_of(wrong[:15], keep=0.2).chance_tasks == 0


def test_regret_is_a_mean_over_tasks_with_an_audit() -> None:
    records = [
        replace(record_of(candidate(n, task), seconds, purpose=purpose), predicted_seconds=1.0)
        for n, (task, seconds, purpose) in enumerate(
            [
                ("a", 1.5, Purpose.SEARCH),
                ("a", 1.0, Purpose.AUDIT),
                ("b", 1.0, Purpose.SEARCH),
                ("b", 3.0, Purpose.AUDIT),
                ("c", 9.0, Purpose.SEARCH),
            ]
        )
    ]

    assert quality_of(records, keep=0.2).regret == pytest.approx(0.25)


@pytest.mark.parametrize("error", [0.5, 1.0, 3.0])
def test_the_rank_of_all_drafts_follows_from_the_measured_ones(error: float) -> None:
    """As `draft` chooses: half the best by prediction, half drawn from the kept, some rejected."""
    rng = np.random.default_rng(0)
    records, true, ranks = [], [], []
    for task in range(30):
        seconds = np.exp(rng.normal(size=1000))
        predicted = seconds * np.exp(rng.normal(scale=error, size=1000))
        true.append(float(stats.kendalltau(predicted, seconds).statistic))
        ranks.append(float(stats.spearmanr(predicted, seconds).statistic))
        order = np.argsort(predicted)
        kept = [*order[:10], *rng.choice(order[10:200], 10, replace=False)]
        audit = rng.choice(order[200:], 3, replace=False)
        for row in (*kept, *audit):
            purpose = Purpose.AUDIT if row in audit else Purpose.SEARCH
            made = record_of(candidate(int(row), f"t{task}"), float(seconds[row]), purpose=purpose)
            records.append(replace(made, predicted_seconds=float(predicted[row])))

    quality = quality_of(records, keep=0.2)

    assert quality.kendall_all == pytest.approx(np.mean(true), abs=0.08)
    searched = quality_of([r for r in records if r.purpose is Purpose.SEARCH], keep=0.2).spearman
    assert searched is not None
    assert searched < np.mean(ranks) - 0.05  # of the kept alone: why it looks low


def test_without_a_rejected_draft_the_kept_are_all() -> None:
    records = [record(n, 1.0 + n, 2.0 + n) for n in range(8)]

    assert quality_of(records, keep=1.0).kendall_all == pytest.approx(1.0)
    assert quality_of(records, keep=0.5).kendall_all is None
