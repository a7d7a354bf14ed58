"""The best schedules as the two files of TVM's own MetaSchedule database, for plain TVM to load."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import tvm
from tvm.s_tir import meta_schedule as ms

from tune_farm.server.run_directory import TUNING_RECORDS, WORKLOADS
from tune_farm.tuner.errors import TuneFarmError
from tune_farm.tuner.records.durable import sync_directory, write_error
from tune_farm.tuner.records.query import rank, standing
from tune_farm.tuner.space.traces import replay
from tune_farm.tuner.types import Measured, Record, Task


def export_database(
    directory: Path, tasks: Sequence[Task], records: Iterable[Record], *, top_k: int | None = None
) -> int:
    """Write `database_workload.json` and `database_tuning_record.json`, each whole or not at all.

    TVM takes the record with the smallest time; here that is the one this project calls best. Leave
    out the records of tasks that keep their baseline: TVM would apply them.

    Args:
        directory: where the files go.
        tasks: all tasks of the run, always in the same order.
        records: what was measured; failures and untuned operators are left out.
        top_k: at most so many schedules a task; None for all.

    Returns:
        The number of records written.

    Raises:
        EnvironmentUnusableError: the files could not be written.
    """
    ranked = ranked_by_task(records)
    names = WORKLOADS, TUNING_RECORDS
    try:
        with tempfile.TemporaryDirectory(prefix=".export-", dir=directory) as folder:
            paths = [Path(folder) / name for name in names]
            database = ms.database.JSONDatabase(*map(str, paths))
            # Records point to workloads by line number. As every task gets its line, and always the
            # same one, old records and new workloads fit even if a kill falls between the renames.
            workloads = {task.id: _workload(database, task) for task in tasks}
            chosen = [(t, r) for t in tasks for r in ranked.get(t.id, [])[:top_k]]
            for task, record in chosen:
                _commit(database, workloads[task.id], task, record)
            for path in paths:
                _put(path, directory / path.name)
        sync_directory(directory)
    except OSError as error:
        raise write_error(error, directory) from error
    return len(chosen)


def _put(path: Path, name: Path) -> None:
    path.touch()  # TVM makes no file for a table without rows
    with path.open("rb") as file:
        os.fsync(file.fileno())
    path.replace(name)


def ranked_by_task(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return each task's schedules, each by the record that stands for it, the best first.

    A search result that is faster than the task's best final is left out: it was not confirmed.
    """
    ranked: dict[str, list[Record]] = {}
    seen: set[str] = set()
    measured = [record for record in standing(records) if not record.candidate.is_untuned]
    for record in sorted(measured, key=rank):
        rows = ranked.setdefault(record.candidate.task_id, [])
        unconfirmed = rows and _seconds(record) < _seconds(rows[0])
        if record.candidate.id not in seen and not unconfirmed:
            seen.add(record.candidate.id)
            rows.append(record)
    return {task: sorted(rows, key=_seconds) for task, rows in ranked.items()}


def _seconds(record: Record) -> float:
    assert isinstance(record.outcome, Measured), record.key
    return record.outcome.median_seconds


def _workload(database: ms.database.Database, task: Task) -> ms.database.Workload:
    return database.commit_workload(tvm.ir.load_json(task.module_json))


def _commit(
    database: ms.database.Database, workload: ms.database.Workload, task: Task, record: Record
) -> None:
    try:
        schedule = replay(workload.mod, record.candidate.trace_json)
    except Exception as error:
        raise TuneFarmError(
            f"candidate {record.candidate.id} of task {task.name} ({task.id}) cannot be replayed: "
            f"{error}"
        ) from error
    database.commit_tuning_record(
        ms.database.TuningRecord(
            schedule.trace,
            workload,
            # TVM ranks by the mean of these numbers, this project by the median of the repeats.
            [_seconds(record)],
            tvm.target.Target(json.loads(task.target_json)),
            ms.arg_info.ArgInfo.from_entry_func(workload.mod, False),
        )
    )
