"""A run that never finished is reported as far as its journal and events tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tune_farm.server.events import EventLog
from tune_farm.server.report.stored import load_summary
from tune_farm.server.report.summary import Summary, TaskState, summary_to_json
from tune_farm.tuner.errors import RunDirectoryError, UsageError
from tune_farm.tuner.records.journal import Journal
from tune_farm.tuner.records.schema import Header
from tune_farm.tuner.types import UNTUNED_TRACE, Fault, Purpose, Record

MakeRecord = Callable[..., Record]


@pytest.fixture
def run(tmp_path: Path, record: MakeRecord) -> Path:
    """A directory with a journal and events, but no summary."""
    records = [
        record(UNTUNED_TRACE, 3e-3, task="conv" * 8, purpose=Purpose.BASELINE),
        record("[1]", 2e-3, task="conv" * 8),
        record("[2]", Fault.BUILD_ERROR, task="conv" * 8),
        record(UNTUNED_TRACE, 1e-3, task="dense", purpose=Purpose.BASELINE),
        record("[1]", 2e-3, task="dense"),
        record("[1]", Fault.BUILD_ERROR, task="pool"),
    ]
    device_class = records[0].device.device_class
    header = Header(
        run_id="r",
        model="resnet50",
        batch=1,
        sequence=None,
        shapes=(),
        target_json="{}",
        device_class=device_class,
        share_kind="cores",
        share_granted=4,
        share_total=8,
        asked_percent=50,
        tune_farm_version="0.1.0",
        tvm_version="0.27.0",
        seed=0,
        strategy="metaschedule",
        layout="given",
        fast_math=False,
        created=records[0].time - 60,
    )
    with Journal.create(tmp_path / "records.jsonl", header) as journal:
        journal.append_all(records, spent_seconds=60.0)
    return tmp_path


def test_journal_alone(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.iterdir()}
    summary = load_summary(run)
    assert summary.exit_code is None
    assert summary.mark == "UNFINISHED"
    assert [(task.name, task.state, task.trials) for task in summary.tasks] == [
        ("convconvconv", TaskState.TUNED, 2),
        ("dense", TaskState.BASELINE, 1),
        ("pool", TaskState.PENDING, 1),
    ]
    assert summary.tasks[0].weight is None
    assert summary.trials.measured == 2
    assert summary.trials.failed == (("build_error", 2),)
    assert summary.first_failure == "build_error: cause"
    assert summary.wall_seconds == 60.0
    assert summary.clients == 1
    assert {path: path.read_bytes() for path in run.iterdir()} == before


def test_events_add_names_and_pruned_drafts(run: Path) -> None:
    with EventLog(run / "events.jsonl") as events:
        row = {"id": "dense", "name": "dense_relu", "weight": 3}
        events.append("tasks", tasks=[row, {"id": "new", "name": "softmax", "weight": 1}])
        events.append("pruned", task="dense", fault="pruned_static", count=7)
        events.append("pruned", task="dense", fault="pruned_static", count=2)
        events.append("other")
    summary = load_summary(run)
    tasks = {task.name: task for task in summary.tasks}
    assert tasks["dense_relu"].weight == 3
    assert tasks["softmax"].state is TaskState.PENDING
    assert summary.trials.pruned_static == 9
    assert summary.trials.pruned_predicted == 0


def test_summary_of_a_finished_run_wins(run: Path, summary: Summary) -> None:
    (run / "summary.json").write_text(json.dumps(summary_to_json(summary)))
    assert load_summary(run) == summary


@pytest.mark.parametrize("text", ["{", "{}", "\xff"])
def test_damaged_summary_is_named(run: Path, text: str) -> None:
    (run / "summary.json").write_text(text, encoding="latin-1")
    with pytest.raises(RunDirectoryError, match=r"summary\.json is damaged"):
        load_summary(run)


def test_no_run_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no records"):
        load_summary(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        load_summary(tmp_path / "none")
