from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
from types import SimpleNamespace

import psutil
import pytest
from click.testing import CliRunner

from tune_farm.cli import main
from tune_farm.client.doctor import checks
from tune_farm.client.doctor.check import Status
from tune_farm.client.doctor.trial import Trial, try_out, try_probe

NAP = f"98765.{os.getpid()}"  # seconds; ours alone, whoever else tests on this machine


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials pass without being run."""
    passed = Trial(passed=True, detail="tried")
    monkeypatch.setattr(checks, "try_probe", lambda _name, **_settings: passed)
    monkeypatch.setattr(checks, "try_out", lambda *_arguments, **_settings: passed)


def statuses() -> dict[str, Status]:
    return {check.name: check.status for check in checks.run_checks(full=False)}


@pytest.mark.slow
def test_this_machine_is_fit() -> None:
    result = CliRunner().invoke(main, ["doctor", "--format", "json"])

    document = json.loads(result.stdout)
    failed = [check for check in document["checks"] if check["status"] == "failed"]
    assert failed == []
    assert document["usable"] is True
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("variables", "remedy"),
    [({"PATH": "/nowhere"}, "install one"), ({"CXX": "no-such-compiler"}, "unset CXX")],
)
def test_without_a_compiler_no_build_is_tried(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], remedy: str
) -> None:
    monkeypatch.setattr(checks, "try_out", lambda *_, **__: Trial(passed=True, detail="tried"))
    monkeypatch.setattr(checks, "try_probe", lambda name, **_: Trial(passed=True, detail=name))
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    result = CliRunner().invoke(main, ["doctor", "--format", "json"])

    failed = {
        check["name"]: check
        for check in json.loads(result.stdout)["checks"]
        if check["status"] == "failed"
    }
    assert set(failed) == {"C compiler", "TVM build"}
    assert all(remedy in check["remedy"] for check in failed.values())
    assert "tvm-build" not in result.stdout
    assert result.exit_code == 5


@pytest.mark.usefixtures("quick")
def test_a_failed_line_has_its_remedy_and_the_exit_code_is_5(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)

    result = CliRunner().invoke(main, ["doctor"])

    line = next(line for line in result.stdout.splitlines() if "C compiler" in line)
    assert line.startswith("failed")
    assert "remedy: install one, for example with 'apt-get install g++'" in line
    assert result.exit_code == 5


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("name", "version", "says"),
    [
        ("apache-tvm-ffi", "0.1.15.post2", "crashes"),
        ("apache-tvm-ffi", None, "not installed"),
        ("apache-tvm", "0.26.0", "needs 0.27.0.post1"),
        ("xgboost", None, "not installed: xgboost"),
    ],
)
def test_a_wrong_package_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, version: str | None, says: str
) -> None:
    real = importlib.metadata.version

    def fake(asked: str) -> str:
        if asked != name:
            return real(asked)
        if version is None:
            raise importlib.metadata.PackageNotFoundError
        return version

    monkeypatch.setattr(importlib.metadata, "version", fake)

    failed = [each for each in checks.run_checks(full=False) if each.status is Status.FAILED]
    assert len(failed) == 1
    assert says in failed[0].detail
    assert "pip install" in failed[0].remedy


@pytest.mark.usefixtures("quick")
def test_a_full_disk_fails_and_a_small_shm_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1, total=64 << 20))

    found = statuses()
    assert found["disk: working folder"] is Status.FAILED
    assert found["shared memory"] is Status.NOTE


@pytest.mark.usefixtures("quick")
def test_no_gpu_is_no_failure() -> None:
    assert statuses()["CUDA driver"] is not Status.FAILED


def test_a_trial_that_crashes_names_the_signal() -> None:
    trial = try_out("import os; os.abort()", timeout_seconds=30)

    assert trial == Trial(passed=False, detail="the process died of SIGABRT")


def test_a_trial_that_raises_shows_its_last_line() -> None:
    trial = try_out("print('x'); raise ValueError('no')", timeout_seconds=30)

    assert trial == Trial(passed=False, detail="ValueError: no")


def test_a_trial_that_hangs_is_ended_with_all_it_started() -> None:
    code = (
        "import subprocess\n"
        f"subprocess.Popen(['sleep', '{NAP}'], start_new_session=True)\n"
        f"import time; time.sleep({NAP})"
    )
    trial = try_out(code, timeout_seconds=1)

    assert trial == Trial(passed=False, detail="no answer in 1 s")
    assert ["sleep", NAP] not in [each.info["cmdline"] for each in psutil.process_iter(["cmdline"])]


def test_an_unknown_probe_does_not_pass() -> None:
    assert not try_probe("nix", timeout_seconds=30).passed


@pytest.mark.ray
@pytest.mark.slow
def test_full_starts_a_ray_cluster_and_leaves_none() -> None:
    result = CliRunner().invoke(main, ["doctor", "--full", "--format", "json"])

    cluster = next(c for c in json.loads(result.stdout)["checks"] if c["name"] == "Ray cluster")
    assert cluster["status"] == "ok"
    assert "ran a task" in cluster["detail"]
