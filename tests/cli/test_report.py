"""`report` prints a run in four forms, on stdout alone."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tune_farm.cli.report import report
from tune_farm.server.run_directory import RunDirectory, new_run_id
from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.records.journal import Journal
from tune_farm.tuner.records.schema import Header
from tune_farm.tuner.types import DeviceClass

SUMMARY = {
    "run_id": "r",
    "run_directory": "runs/r",
    "model": "resnet50",
    "device": "Test CPU",
    "share": {"kind": "cores", "percent": 40, "granted": 4, "total": 8},
    "clients": 1,
    "layout": "given",
    "tasks": [
        {
            "id": "aa",
            "name": "conv2d, add",
            "weight": 4,
            "baseline_seconds": 3e-3,
            "best_seconds": 2e-3,
            "spread_seconds": 1e-5,
            "trials": 64,
            "state": "tuned",
            "reason": "",
            "variant": "",
        }
    ],
    "untunable": [],
    "skipped": [],
    "trials": {"measured": 9, "pruned_static": 0, "pruned_predicted": 0, "failed": {}},
    "end_to_end": None,
    "wall_seconds": 61.0,
    "stage_seconds": {},
    "predictor": None,
    "first_failure": None,
    "exit_code": 0,
    "simulated": False,
    "checked": True,
    "winograd_tiles": {},
}
HEADER = Header(
    run_id="r",
    model="resnet50",
    batch=1,
    sequence=None,
    shapes=(),
    target_json="{}",
    device_class=DeviceClass(
        kind="cpu", name="Test CPU", total=8, memory_bytes=1, architecture="znver4"
    ),
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
    created=0.0,
)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    with RunDirectory.create(tmp_path / "run", run_id=new_run_id("m")) as run:
        run.write_summary(SUMMARY)
    return tmp_path / "run"


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(report, [str(argument) for argument in arguments])


def test_table(finished: Path) -> None:
    result = call(finished)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "2.00 ms ± 10.0 µs" in result.stdout
    assert "1 min 01 s" in result.stdout


def test_json_is_one_document(finished: Path) -> None:
    result = call(finished, "--format", "json")
    assert json.loads(result.stdout) == SUMMARY


def test_csv_has_a_line_a_task(finished: Path) -> None:
    (row,) = csv.DictReader(io.StringIO(call(finished, "--format", "csv").stdout))
    assert row["name"] == "conv2d, add"
    assert float(row["best_seconds"]) == 2e-3
    assert row["state"] == "tuned"


def test_markdown(finished: Path) -> None:
    assert call(finished, "--format", "markdown").stdout.startswith("# resnet50 on Test CPU\n")


def test_unfinished_run_says_so(tmp_path: Path) -> None:
    Journal.create(tmp_path / "records.jsonl", HEADER).close()
    result = call(tmp_path, "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["exit_code"] is None
    assert "never finished" in result.stderr


def test_running_run_names_its_owner(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path, run_id=new_run_id("m")) as run:
        Journal.create(run.journal_path, HEADER).close()
        result = call(tmp_path)
    assert "its run (pid" in result.stderr
    assert "UNFINISHED" in result.stdout


@pytest.mark.parametrize(
    ("name", "what"), [("", "has no records"), ("absent", "does not exist"), ("file", "is not a")]
)
def test_no_run_directory(tmp_path: Path, name: str, what: str) -> None:
    (tmp_path / "file").touch()
    result = call(tmp_path / name)
    assert isinstance(result.exception, UsageError)
    assert f"is not a run directory: it {what}" in str(result.exception)
