"""A run's predictions are judged by rank, and by what the audit found among the rejected."""

from __future__ import annotations

from dataclasses import replace

import pytest

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

    assert quality_of(records) == Quality(
        spearman=None, recall_at_keep=None, audited=0, chance_tasks=0
    )


@pytest.mark.parametrize(("sign", "expected"), [(1, 1.0), (-1, -1.0)])
def test_rank_not_scale_counts(sign: int, expected: float) -> None:
    records = [record(n, 100.0 + sign * n, 1e-3 * 2.0**n) for n in range(8)]

    assert quality_of(records).spearman == pytest.approx(expected)


def test_few_candidates_have_no_rank_and_failures_none_at_all() -> None:
    records = [record(n, 1.0 + n, 1.0 + n) for n in range(7)]
    records += [record(10 + n, 1.0, Fault.RUN_ERROR) for n in range(5)]

    assert quality_of(records).spearman is None


def test_what_the_audit_found_was_missed() -> None:
    kept = [record(n, 1.0 + n, 2.0 + n) for n in range(18)]
    slow = record(18, 90.0, 50.0, audit=True)
    fast = record(19, 91.0, 1.0, audit=True)

    assert quality_of([*kept, slow, replace(fast, predicted_seconds=None)]) == Quality(
        spearman=1.0, recall_at_keep=1.0, audited=1, chance_tasks=0
    )
    missed = quality_of([*kept, slow, fast])
    assert (missed.recall_at_keep, missed.audited) == (0.5, 2)


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

    assert quality_of(wrong).chance_tasks == 1
    assert quality_of(wrong[:15]).chance_tasks == 0
