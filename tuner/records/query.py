"""Questions to records: the best, the baseline, what failed, what was tried before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tune_farm.tuner.types import Failed, Fault, Measured, Purpose, Record

#: What counts as a trial: a baseline is measured for comparison, a final is a repetition.
TRIAL_PURPOSES = frozenset({Purpose.SEARCH, Purpose.AUDIT})
_PRUNED = frozenset({Fault.PRUNED_STATIC, Fault.PRUNED_PREDICTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCounts:
    """How many records ended how."""

    measured: int
    failed: tuple[tuple[Fault, int], ...]  # most frequent first

    @property
    def failed_total(self) -> int:
        """All failures together."""
        return sum(count for _, count in self.failed)


def best_by_task(records: Iterable[Record]) -> dict[str, Record]:
    """Return each task's best measured schedule; untuned operators are not among them.

    If a task has finals the best is chosen among them alone: a search result was measured beside
    others at work, and the fastest of many noisy numbers is too good to be true.
    """
    best: dict[str, Record] = {}
    for record in standing(records):
        if record.candidate.is_untuned:
            continue
        task_id = record.candidate.task_id
        if task_id not in best or rank(record) < rank(best[task_id]):
            best[task_id] = record
    return best


def baseline_by_task(records: Iterable[Record]) -> dict[str, Record]:
    """Return each task's measured untuned operator, as a final if there is one."""
    baseline: dict[str, Record] = {}
    for record in standing(records):
        task_id = record.candidate.task_id
        if record.candidate.is_untuned and (
            task_id not in baseline or rank(record) < rank(baseline[task_id])
        ):
            baseline[task_id] = record
    return baseline


def standing(records: Iterable[Record]) -> list[Record]:
    """Return the measured record that stands for each candidate and purpose: its last attempt."""
    last: dict[tuple[str, Purpose], Record] = {}
    for record in records:
        if not isinstance(record.outcome, Measured):
            continue
        key = record.candidate.id, record.purpose
        if key not in last or record.attempt > last[key].attempt:
            last[key] = record
    return list(last.values())


def rank(record: Record) -> tuple[bool, bool, float, str]:
    """Return the key by which measured records of one task sort, best first."""
    outcome = record.outcome
    assert isinstance(outcome, Measured), record.key
    return (
        record.purpose is not Purpose.FINAL,
        outcome.stopped_early,
        outcome.median_seconds,
        record.candidate.id,
    )


def count_outcomes(
    records: Iterable[Record], *, purposes: frozenset[Purpose] = TRIAL_PURPOSES
) -> OutcomeCounts:
    """Count records of the given purposes, each attempt by itself."""
    measured = 0
    failed: Counter[Fault] = Counter()
    for record in records:
        if record.purpose not in purposes:
            continue
        if isinstance(record.outcome, Failed):
            failed[record.outcome.fault] += 1
        else:
            measured += 1
    ordered = sorted(failed.items(), key=lambda item: (-item[1], item[0].value))
    return OutcomeCounts(measured=measured, failed=tuple(ordered))


def still_failed(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return each task's trials that never gave a time, each by its last attempt.

    What was pruned is left out: it was not tried at all, and for a reason that stays.
    """
    last: dict[str, Record] = {}
    measured = set()
    for record in records:
        if record.purpose not in TRIAL_PURPOSES:
            continue
        key = record.candidate.id
        if not isinstance(record.outcome, Failed):
            measured.add(key)
        elif key not in last or record.attempt >= last[key].attempt:
            last[key] = record
    found: dict[str, list[Record]] = {}
    for key, record in last.items():
        assert isinstance(record.outcome, Failed)
        if key not in measured and record.outcome.fault not in _PRUNED:
            found.setdefault(record.candidate.task_id, []).append(record)
    return found


def trials_by_task(records: Iterable[Record]) -> dict[str, int]:
    """Count each task's distinct candidates that were tried; a repeated attempt is no new trial."""
    tried: dict[str, set[str]] = {}
    for record in records:
        if record.purpose in TRIAL_PURPOSES:
            tried.setdefault(record.candidate.task_id, set()).add(record.candidate.id)
    return {task_id: len(candidates) for task_id, candidates in tried.items()}
