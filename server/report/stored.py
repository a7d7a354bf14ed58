"""The summary of a run directory: as the run left it, or as far as its journal tells."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from tune_farm.server.events import TASKS, pruned_of, read_events
from tune_farm.server.failures import first_line
from tune_farm.server.report.summary import (
    ShareSummary,
    Summary,
    TaskState,
    TaskSummary,
    TrialCounts,
    summary_from_json,
)
from tune_farm.server.run_directory import EVENTS, JOURNAL, SUMMARY
from tune_farm.tuner.errors import RunDirectoryError, UsageError
from tune_farm.tuner.records.journal import JournalContents, read_journal
from tune_farm.tuner.records.query import (
    baseline_by_task,
    best_by_task,
    count_outcomes,
    trials_by_task,
)
from tune_farm.tuner.records.schema import Header
from tune_farm.tuner.types import Failed, Measured, Record


def load_summary(directory: Path) -> Summary:
    """Return what is known of a run; its `exit_code` is None if it has not ended.

    Raises:
        UsageError: this is no run directory.
        RunDirectoryError: its files are damaged.
    """
    path = directory / SUMMARY
    if path.exists():
        try:
            return summary_from_json(json.loads(path.read_bytes()))
        except ValueError as error:
            raise RunDirectoryError(
                f"{path} is damaged: {error}", "move it aside to have a report of the journal"
            ) from error
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error
    journal = directory / JOURNAL
    if not journal.exists():
        what = "has no records" if directory.is_dir() else "is not a directory"
        what = what if directory.exists() else "does not exist"
        raise UsageError(
            f"{directory} is not a run directory: it {what}",
            "name the directory that `tune-farm run` printed",
        )
    return summary_of_journal(directory, read_journal(journal))


def summary_of_journal(directory: Path, contents: JournalContents) -> Summary:
    """Derive a summary from records, and from events for what records do not hold."""
    header = contents.header
    records = [item.record for item in contents.stored]
    pruned = pruned_of(directory / EVENTS)
    outcomes = count_outcomes(records)
    begun = header.created
    return Summary(
        run_id=header.run_id,
        run_directory=str(directory),
        model=header.model,
        device=header.device_class.name,
        share=_share(header),
        clients=len({record.client for record in records}),
        layout=header.layout,
        tasks=_tasks(records, _named(directory / EVENTS)),
        untunable=(),
        skipped=(),
        trials=TrialCounts(
            measured=outcomes.measured,
            pruned_static=pruned.over_limit,
            pruned_predicted=pruned.predicted_slow,
            failed=tuple((fault.value, count) for fault, count in outcomes.failed),
        ),
        end_to_end=None,
        wall_seconds=max((record.time for record in records), default=begun) - begun,
        stage_seconds=_stages(records),
        predictor=None,
        first_failure=_first_failure(records),
        exit_code=None,
        checked=header.checked,
        simulated=any(record.device.uuid.startswith("sim:") for record in records),
    )


def _share(header: Header) -> ShareSummary:
    return ShareSummary(
        kind=header.share_kind,
        percent=header.asked_percent,
        granted=header.share_granted,
        total=header.share_total,
    )


def _first_failure(records: Iterable[Record]) -> str | None:
    for record in records:
        if isinstance(record.outcome, Failed):
            return f"{record.outcome.fault.value}: {first_line(record.outcome.detail)}"
    return None


def _tasks(
    records: list[Record], named: dict[str, tuple[str, int | None]]
) -> tuple[TaskSummary, ...]:
    best, baseline, trials = (
        best_by_task(records),
        baseline_by_task(records),
        trials_by_task(records),
    )
    ids = dict.fromkeys([*named, *(record.candidate.task_id for record in records)])
    return tuple(
        _task(task_id, named.get(task_id), baseline.get(task_id), best.get(task_id), trials)
        for task_id in ids
    )


def _task(
    task_id: str,
    known: tuple[str, int | None] | None,
    baseline: Record | None,
    best: Record | None,
    trials: dict[str, int],
) -> TaskSummary:
    name, weight = known or (task_id[:12], None)
    before = baseline.seconds if baseline else None
    after = best.seconds if best else None
    if after is not None and (before is None or after < before):
        state = TaskState.TUNED
    else:
        state = TaskState.PENDING if before is None else TaskState.BASELINE
    return TaskSummary(
        id=task_id,
        name=name,
        weight=weight,
        baseline_seconds=before,
        best_seconds=after,
        spread_seconds=spread_seconds(best) if best else None,
        trials=trials.get(task_id, 0),
        state=state,
    )


def spread_seconds(record: Record) -> float | None:
    """Return half the range of a record's repeats: the ± of the tables."""
    if not isinstance(record.outcome, Measured):
        return None
    repeats = record.outcome.repeats_seconds
    return (max(repeats) - min(repeats)) / 2


def _stages(records: Iterable[Record]) -> tuple[tuple[str, float], ...]:
    total: dict[str, float] = {}
    for record in records:
        for name, seconds in asdict(record.stage_seconds).items():
            total[name] = total.get(name, 0.0) + seconds
    return tuple(total.items())


def _named(path: Path) -> dict[str, tuple[str, int | None]]:
    """Name and weight of each task, by id."""
    named: dict[str, tuple[str, int | None]] = {}
    for event in read_events(path):
        if event.get("kind") == TASKS:
            named |= {row["id"]: (row["name"], row["weight"]) for row in event["tasks"]}
    return named
