"""Parts of the on-device check against doubles: real processes, a driver and MPS made up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from benchmarks.gpu.bundle import Bundle, write_manifest
from benchmarks.gpu.conduct import PARTS, Outcome, conduct
from benchmarks.gpu.keeper import processes_of
from benchmarks.gpu.lab import Findings, SkippedError
from benchmarks.gpu.machine import Machine
from benchmarks.gpu.parts import blast, sms
from tests.doubles.fixtures import GpuMachine
from tune_farm.tuner.errors import EnvironmentUnusableError

_CHECK = Path(__file__).parents[3] / "benchmarks" / "gpu" / "check.py"


def outcome_of(name: str, machine: Machine) -> Outcome:
    (part,) = (each for each in PARTS if each.name == name)
    (outcome,) = conduct(machine, [part], 60.0)
    return outcome


def findings_of(name: str, machine: Machine) -> Findings:
    outcome = outcome_of(name, machine)
    assert outcome.findings is not None, outcome.reason
    return outcome.findings


def daemons() -> list[psutil.Process]:
    """Of this test's doubles."""
    found = []
    for process in psutil.process_iter():
        try:
            is_ours = process.environ().get("MPS_DOUBLE") == os.environ["MPS_DOUBLE"]
            name = next(iter(process.cmdline()), "")
            if is_ours and name.startswith("nvidia-cuda-mps"):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_attachment_is_told_from_silent_fallback(gpu_machine: GpuMachine, tmp_path: Path) -> None:
    machine = Machine(None, tmp_path, None)

    found = findings_of("attachment", machine)

    assert machine.device.sm_count == 132
    attached, *lost = found.rows
    assert attached["visible_sms"] == 52
    assert attached["listed_by_daemon"] is True
    assert [row["visible_sms"] for row in lost] == [132, 132]
    assert [row["error"] for row in lost] == ["", ""]
    assert "is no client of the MPS daemon" in lost[1]["handshake"]
    assert found.results == {"attached": 1.0, "silent_fallbacks": 2, "fallbacks_caught": 2}
    assert daemons() == []


@pytest.mark.slow
def test_percentages_are_sms(
    launching_machine: GpuMachine,
    kernels: Bundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sms, "PERCENTS", (25, 100))

    found = findings_of("sms", Machine(kernels, tmp_path, None))

    by_percent = {row["percent"]: row for row in found.rows}
    assert by_percent[25]["visible_sms"] == by_percent[25]["used_sms"] == 32
    assert by_percent[25]["smids"] == "0-31"
    assert by_percent[100]["used_sms"] == 132
    assert found.results["two_halves_share"] == 66  # the double has all clients begin at SM 0
    assert daemons() == []


@pytest.mark.slow
def test_a_fault_hits_the_neighbours_and_is_recovered_from(
    launching_machine: GpuMachine,
    kernels: Bundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blast, "KINDS", (blast.by_percentage,))

    found = findings_of("blast", Machine(kernels, tmp_path, None))

    (mps,) = found.rows
    assert mps["kind"] == "mps"
    assert mps["culprit_error"] == 700
    assert mps["neighbors_hit"] == mps["neighbors"] == 2
    assert mps["neighbor_errors"] == "719 719"
    assert "SERVER_NOT_READY" in mps["new_client_meanwhile"]
    assert mps["server_states"] == "FAULT > FAULT > ACTIVE"
    assert 0 <= mps["recovery_seconds"] < 12
    assert daemons() == []


def test_a_daemon_that_does_not_start_skips_the_part(
    gpu_machine: GpuMachine, tmp_path: Path
) -> None:
    gpu_machine.mps(stillborn="no permission for that")

    outcome = outcome_of("attachment", Machine(None, tmp_path, None))

    assert outcome.state == "skipped"
    assert "no permission for that" in outcome.reason
    assert daemons() == []


def test_a_part_that_takes_too_long_is_ended(gpu_machine: GpuMachine, tmp_path: Path) -> None:
    machine = Machine(None, tmp_path, None)
    with machine.daemon() as daemon:
        machine.limit(0.0)
        with pytest.raises(Exception, match="time is over"), daemon.client("late", percent=50):
            pass

    assert daemons() == []


def test_no_gpu_is_told_with_a_remedy(gpu_machine: GpuMachine, tmp_path: Path) -> None:
    gpu_machine.cards()

    with pytest.raises(EnvironmentUnusableError, match=r"NO_DEVICE.*install the NVIDIA driver"):
        Machine(None, tmp_path, None)


def test_no_mps_command_is_a_reason_to_skip(
    gpu_machine: GpuMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(None, tmp_path, None)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))

    with pytest.raises(SkippedError, match="is not on PATH"), machine.daemon():
        pass


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_ended_check_leaves_no_daemon(
    gpu_machine: GpuMachine, tmp_path: Path, number: signal.Signals
) -> None:
    bundle = Bundle(folder=tmp_path / "b", made={}, kernels={}, registers={}, operators=())
    bundle.folder.mkdir()
    write_manifest(bundle)
    gpu_machine.mps(late={"get_client_list": 4})
    file = tmp_path / "found.json"
    arguments = ["--bundle", str(bundle.folder), "--parts", "driver,attachment"]
    process = subprocess.Popen(
        [sys.executable, str(_CHECK), "run", *arguments, "--json", str(file)],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await_true(lambda: len(daemons()) >= 2)  # a daemon, and a server for a client of it
        assert file.exists()  # what was known before is not lost
        gpu_machine.mps()
        process.send_signal(number)
        code = process.wait(30)
    finally:
        process.kill()
        process.wait()

    await_true(lambda: not daemons())
    assert code == (130 if number is signal.SIGINT else -number)
    assert json.loads(file.read_text())["parts"].keys() == {"driver"}


def await_true(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def test_only_the_daemon_of_a_pipe_directory_is_found(
    gpu_machine: GpuMachine, tmp_path: Path
) -> None:
    machine = Machine(None, tmp_path, None)
    with machine.daemon() as daemon:
        pipes = daemon.control.pipe_directory
        assert len(processes_of(pipes)) == 1
        assert processes_of(tmp_path) == []
    assert not pipes.parent.exists()
