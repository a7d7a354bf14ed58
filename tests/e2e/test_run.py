"""A whole run, what it leaves behind, and what others can do with that."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Command, keys, outcomes
from tests.e2e.tiny_model import CONVERSIONS, OPERATORS, write_tiny_model

pytestmark = [pytest.mark.slow, pytest.mark.ray]

LIMITS = ("--sm-share", "50", "--clients", "1", "--trials-per-task", "6")
#: What a reader of the README would type: nothing of this project is imported.
PLAIN_TVM = """
import json, sys
from pathlib import Path
import tvm
from tvm import relax
from tvm.s_tir import meta_schedule as ms

folder = Path(sys.argv[1])
module = tvm.ir.load_json((folder / "model.tvm.json").read_text())
database = ms.database.JSONDatabase(
    str(folder / "database_workload.json"), str(folder / "database_tuning_record.json")
)
target = database.get_all_tuning_records()[0].target
found = [
    task.task_name
    for task in ms.relax_integration.extract_tasks(module, target)
    if database.query_tuning_record(task.dispatched[0], target, task.task_name) is not None
]
with target, database, tvm.transform.PassContext(opt_level=3):
    applied = relax.transform.MetaScheduleApplyDatabase()(module)
scheduled = [
    name.name_hint
    for name, function in applied.functions_items()
    if function.attrs is not None and function.attrs.get("tirx.is_scheduled")
]
tvm.compile(applied, target)
print(json.dumps({"found": found, "scheduled": scheduled}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run that came to its end, called in a folder with modules named like our parts."""

    directory: Path
    code: int
    stdout: str
    stderr: str
    leftovers: list[str]


def remembers(folder: Path) -> dict[str, str]:
    return {"TUNE_FARM_NO_MEMORY": "0", "TUNE_FARM_MEMORY": str(folder)}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Finished:
    users = tmp_path_factory.mktemp("users")
    (users / "server").mkdir()
    names = ("server/__init__.py", "client.py", "tuner.py", "sharding.py")
    for name in names:
        (users / name).write_text("raise SystemExit('this is the user\\'s module')\n")
    out = users / "out"
    arguments = ("run", tiny_model, *LIMITS, "--out", out, "--format", "json")
    with Command(*arguments, cwd=users, environment=remembers(users / "memory")) as run:
        code = run.wait()
        return Finished(
            directory=out,
            code=code,
            stdout=run.stdout,
            stderr=run.stderr,
            leftovers=run.leftovers(),
        )


@pytest.fixture
def copy(finished: Finished, tmp_path: Path) -> Path:
    """The run directory, free to be changed."""
    return shutil.copytree(finished.directory, tmp_path / "out")


@pytest.fixture
def summary(finished: Finished) -> dict[str, Any]:
    assert finished.code == 0, finished.stderr
    document = json.loads(finished.stdout)  # one document on stdout and nothing else
    assert isinstance(document, dict)
    return document


def test_stdout_is_the_summary(finished: Finished, summary: dict[str, Any]) -> None:
    assert summary == json.loads((finished.directory / "summary.json").read_text())
    assert set(summary) >= {
        *("model", "device", "share", "clients", "tasks", "trials", "end_to_end", "wall_seconds"),
        *("stage_seconds", "predictor", "exit_code", "simulated"),
    }
    assert set(summary["share"]) >= {"kind", "percent", "granted", "total"}
    assert set(summary["trials"]) >= {"measured", "pruned_static", "pruned_predicted", "failed"}
    assert set(summary["predictor"]) >= {"spearman", "recall_at_keep", "audited", "regret"}
    assert summary["exit_code"] == 0
    assert summary["simulated"] is False
    assert "SIMULATED" not in finished.stdout + finished.stderr
    assert finished.leftovers == []


def test_every_operator_has_a_checked_result(finished: Finished, summary: dict[str, Any]) -> None:
    assert sorted(task["name"] for task in summary["tasks"]) == sorted(OPERATORS + CONVERSIONS)
    for task in summary["tasks"]:
        assert set(task) >= {"id", "weight", "baseline_seconds", "best_seconds", "trials", "state"}
        assert task["state"] in ("tuned", "baseline")
        assert task["trials"] == 6 or (task["name"] in CONVERSIONS and 1 <= task["trials"] < 6)
    end = summary["end_to_end"]
    assert end["checked"] is True
    assert 0 < end["tuned_seconds"] < end["baseline_seconds"]
    rows = outcomes(finished.directory)
    assert len(keys(rows)) == len(set(keys(rows)))
    trials = [row for row in rows if row["purpose"] in ("search", "audit")]
    tried = sum(row["attempt"] == 0 for row in trials)
    assert tried == sum(task["trials"] for task in summary["tasks"])
    assert summary["trials"]["measured"] == sum(row["outcome"] == "measured" for row in trials)


def test_plain_tvm_finds_and_compiles_the_schedules(
    finished: Finished, summary: dict[str, Any], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", PLAIN_TVM, str(finished.directory)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        timeout=200,
    )

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    tuned = [task for task in summary["tasks"] if task["state"] == "tuned"]
    assert len(said["found"]) == len(said["scheduled"]) == len(tuned) > 0


def test_the_next_run_begins_with_what_this_one_learned(
    finished: Finished, summary: dict[str, Any], tiny_model: Path, tmp_path: Path
) -> None:
    left = shutil.copytree(finished.directory.parent / "memory", tmp_path / "memory")
    (path,) = left.iterdir()
    rows = path.read_text().splitlines()[1:]
    measured = [row for row in outcomes(finished.directory) if row["outcome"] == "measured"]
    tried = [row for row in measured if row["purpose"] in ("search", "audit")]
    assert {json.loads(row)["task"] for row in rows} <= {row["task"] for row in tried}
    assert {json.loads(row)["kind"] for row in rows} >= {"conv2d", "matmul"}
    assert len(rows) <= len(tried)
    damaged = left / path.name.replace("-", "0", 1)
    damaged.write_text("not what a run left\n")

    # Of an operator with fewer schedules than trials: it ends by itself.
    few = [task["name"] for task in summary["tasks"]].index(CONVERSIONS[0])
    limits = ("--trials", "500", "--tasks", str(few), "--sm-share", "50", "--clients", "1")
    with Command(
        *("run", tiny_model, *limits, "--out", tmp_path / "out", "--format", "json"),
        cwd=tmp_path,
        environment=remembers(left),
    ) as run:
        assert run.wait() == 0, run.stderr
        (task,) = json.loads(run.stdout)["tasks"]
        assert 1 <= task["trials"] < 100
        assert task["state"] in ("tuned", "baseline")
        assert f"remembers {len(rows)} measurements (earlier runs: 1)" in run.stderr
        assert run.stderr.count(str(damaged)) == 1

    began = json.loads((tmp_path / "out" / "environment.json").read_text())["memory"]
    assert began["rows"] == len(rows)
    assert len(began["sha256"]) == 64


def test_resuming_an_ended_run_measures_nothing_again(copy: Path, tiny_model: Path) -> None:
    before = outcomes(copy)
    arguments = ("run", tiny_model, *LIMITS, "--out", copy, "--resume", "--format", "json")

    with Command(*arguments, cwd=copy.parent) as run:
        assert run.wait() == 0, run.stderr
        assert json.loads(run.stdout)["trials"]["measured"] > 0
        assert run.leftovers() == []

    assert outcomes(copy) == before


def test_a_second_run_into_the_same_directory_is_refused(copy: Path, tiny_model: Path) -> None:
    with Command("run", tiny_model, *LIMITS, "--out", copy, cwd=copy.parent) as run:
        assert run.wait() == 6
        assert "--resume" in run.stderr.splitlines()[-1]


def test_records_of_another_model_are_not_resumed(copy: Path) -> None:
    before = outcomes(copy)
    other = write_tiny_model(copy.parent / "other.onnx")

    with Command("run", other, *LIMITS, "--out", copy, "--resume", cwd=copy.parent) as run:
        assert run.wait() == 6
        assert run.stderr.splitlines()[-1].startswith("tune-farm: error: cannot resume")
        assert "model: " in run.stderr

    assert outcomes(copy) == before
    assert (copy / "summary.json").exists()


def test_records_of_another_share_are_not_resumed(copy: Path, tiny_model: Path) -> None:
    arguments = ("--sm-share", "100", "--trials-per-task", "6", "--out", copy, "--resume")
    total = json.loads((copy / "summary.json").read_text())["share"]["total"]
    if total == 1:
        pytest.skip("one core: every share of it is the same")

    with Command("run", tiny_model, *arguments, cwd=copy.parent) as run:
        assert run.wait() == 6
        assert "num-cores" in run.stderr or "granted" in run.stderr
