"""One run a directory: locked, never overwritten, its summary whole or absent."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from tune_farm.server.run_directory import (
    OpenMode,
    RunDirectory,
    check_out,
    lock_owner,
    new_run_id,
)
from tune_farm.tuner.errors import EnvironmentUnusableError, RunDirectoryError, UsageError


def test_default_name_tells_date_and_model(tmp_path: Path) -> None:
    now = datetime(2026, 3, 9)
    run_id = new_run_id("my nets/Tiny Net.onnx", now)
    with RunDirectory.create(None, run_id=run_id, root=tmp_path) as run:
        assert re.fullmatch(r"20260309-Tiny-Net-[0-9a-f]{6}", run.path.name)
        assert run.path.parent == tmp_path
        assert run.run_id == run.path.name
        assert run.failures_path.is_dir()
        assert run.logs_path.is_dir()


def test_two_runs_of_a_day_differ(tmp_path: Path) -> None:
    with (
        RunDirectory.create(None, run_id=new_run_id("m"), root=tmp_path) as one,
        RunDirectory.create(None, run_id=new_run_id("m"), root=tmp_path) as other,
    ):
        assert one.path != other.path


def test_files(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "a" / "b", run_id=new_run_id("m")) as run:
        run.write_config("seed = 1\n")
        run.write_environment({"tvm": "0.27"})
        run.write_model("{}")
        run.write_summary({"exit_code": 0})
        run.write_summary({"exit_code": 4})
        assert (run.path / "config.toml").read_text() == "seed = 1\n"
        assert json.loads((run.path / "environment.json").read_text()) == {"tvm": "0.27"}
        assert run.model_path.read_text() == "{}"
        assert json.loads(run.summary_path.read_text()) == {"exit_code": 4}
        assert sorted(path.name for path in run.path.iterdir()) == [
            "config.toml",
            "environment.json",
            "failures",
            "lock",
            "logs",
            "model.tvm.json",
            "summary.json",
        ]


def test_summary_survives_a_failed_write(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path, run_id=new_run_id("m")) as run:
        run.write_summary({"exit_code": 0})
        with pytest.raises(ValueError, match="not JSON compliant"):
            run.write_summary({"wall_seconds": float("nan")})
        (run.path / ".summary.json.new").mkdir()
        with pytest.raises(EnvironmentUnusableError, match=r"summary\.json"):
            run.write_summary({"exit_code": 1})
        assert json.loads(run.summary_path.read_text()) == {"exit_code": 0}


def test_second_run_is_told_who_holds_it(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path, run_id=new_run_id("m")):
        with pytest.raises(RunDirectoryError, match=f"pid {os.getpid()} on ") as caught:
            RunDirectory.create(tmp_path, run_id=new_run_id("m"), mode=OpenMode.RESTART)
        assert socket.gethostname() in str(caught.value)
        assert caught.value.exit_code == 6
        assert lock_owner(tmp_path) == f"pid {os.getpid()} on {socket.gethostname()}"
    assert lock_owner(tmp_path) is None
    RunDirectory.create(tmp_path, run_id=new_run_id("m")).close()


HOLD = """
import sys
from pathlib import Path
from tune_farm.server.run_directory import RunDirectory, new_run_id
run = RunDirectory.create(Path(sys.argv[1]), run_id=new_run_id("m"))
print("locked", flush=True)
sys.stdin.read()
"""


def test_lock_dies_with_its_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "locked\n"
            with pytest.raises(RunDirectoryError, match=f"pid {child.pid} on "):
                RunDirectory.create(tmp_path, run_id=new_run_id("m"))
        finally:
            child.kill()
    assert lock_owner(tmp_path) is None, "a dead process owns nothing"
    RunDirectory.create(tmp_path, run_id=new_run_id("m")).close()


def test_lock_of_another_host_is_reported(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("1 elsewhere\n")
    assert lock_owner(tmp_path) == "pid 1 on elsewhere"


def test_records_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text("old")
    with pytest.raises(RunDirectoryError, match="--resume to go on, --restart to begin again"):
        RunDirectory.create(tmp_path, run_id=new_run_id("m"))
    with RunDirectory.create(tmp_path, run_id=new_run_id("m"), mode=OpenMode.RESUME) as run:
        assert run.journal_path.read_text() == "old"


def test_restart_moves_aside_and_deletes_nothing(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / "records.jsonl").write_text(f"records {number}")
        (tmp_path / "summary.json").write_text(f"summary {number}")
        with RunDirectory.create(tmp_path, run_id=new_run_id("m"), mode=OpenMode.RESTART) as run:
            assert not run.journal_path.exists()
            assert not run.summary_path.exists()
            assert list(run.failures_path.iterdir()) == []
            (run.failures_path / "cause.txt").write_text(f"failure {number}")
    assert (tmp_path / "records.jsonl.old-1").read_text() == "records 1"
    assert (tmp_path / "records.jsonl.old-2").read_text() == "records 2"
    assert (tmp_path / "summary.json.old-2").read_text() == "summary 2"
    assert (tmp_path / "failures.old-2" / "cause.txt").read_text() == "failure 1"


def test_restart_of_nothing_begins(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path, run_id=new_run_id("m"), mode=OpenMode.RESTART).close()


def test_resumed_run_retires_the_old_summary(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text("old")
    (tmp_path / "summary.json").write_text("{}")
    with RunDirectory.create(tmp_path, run_id=new_run_id("m"), mode=OpenMode.RESUME) as run:
        assert run.summary_path.exists(), "until the journal is accepted"
        run.retire_summary()
        assert not run.summary_path.exists()
        assert run.journal_path.exists()
    assert (tmp_path / "summary.json.old-1").exists()


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to resume"):
        RunDirectory.create(tmp_path / "none", run_id=new_run_id("m"), mode=OpenMode.RESUME)
    assert not (tmp_path / "none").exists()
    with pytest.raises(UsageError, match="--out DIR --resume"):
        RunDirectory.create(None, run_id=new_run_id("m"), mode=OpenMode.RESUME, root=tmp_path)


def test_unwritable_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path, cause in ((file, "File exists"), (file / "run", "Not a directory")):
        with pytest.raises(UsageError, match=f"cannot write to .*{cause}") as caught:
            RunDirectory.create(path, run_id=new_run_id("m"))
        assert caught.value.exit_code == 2
    with pytest.raises(UsageError, match="cannot write to /proc"):
        RunDirectory.create(Path("/proc/run"), run_id=new_run_id("m"))


def test_what_would_be_refused_is_refused_early_and_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    (earlier / "records.jsonl").touch()

    check_out(None, OpenMode.NEW)
    check_out(tmp_path / "new" / "folder", OpenMode.NEW)
    check_out(earlier, OpenMode.RESUME)
    check_out(earlier, OpenMode.RESTART)
    with pytest.raises(RunDirectoryError, match="holds the records of an earlier run"):
        check_out(earlier, OpenMode.NEW)
    with pytest.raises(UsageError, match="nothing to resume"):
        check_out(tmp_path / "new", OpenMode.RESUME)
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match=r"file is no folder"):
            check_out(path, OpenMode.NEW)
    with pytest.raises(UsageError, match="cannot write to /proc"):
        check_out(Path("/proc/here"), OpenMode.NEW)

    assert sorted(path.name for path in tmp_path.rglob("*")) == ["earlier", "file", "records.jsonl"]


def test_a_locked_directory_is_refused_early_and_stays_locked(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run", run_id=new_run_id("m")) as run:
        with pytest.raises(RunDirectoryError, match=f"in use by a run: pid {os.getpid()}"):
            check_out(run.path, OpenMode.RESTART)
        assert lock_owner(run.path) is not None
    check_out(tmp_path / "run", OpenMode.NEW)
