from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.doubles.fixtures import GpuMachine
from tune_farm.client.devices.gpus import Gpu
from tune_farm.client.devices.granted import GpuPlace
from tune_farm.client.share.mps.control import BINARY, Control
from tune_farm.client.share.mps.daemon import Daemon, adopt_or_start, start, stop
from tune_farm.client.share.mps.errors import MpsError, MpsProblem

UUID = "GPU-11111111-1111-1111-1111-111111111111"
PLACE = GpuPlace(
    gpu=Gpu(
        index=0,
        uuid=UUID,
        name="NVIDIA H100",
        driver="580",
        sm_count=132,
        memory_bytes=80 << 30,
        compute_capability="9.0",
        mig_enabled=False,
        instances=(),
        compute_mode=0,
        pids=(),
    )
)


def begin(pipes: Path, **environment: str) -> None:
    """Start a daemon as somebody else would."""
    subprocess.run(
        [BINARY, "-d"],
        env={**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(pipes),
             "CUDA_MPS_LOG_DIRECTORY": str(pipes), **environment},
        check=True,
    )  # fmt: skip


def asked(pipes: Path) -> dict[str, str]:
    return {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(pipes)}


@pytest.mark.usefixtures("gpu_machine")
def test_a_daemon_of_our_own_serves_one_gpu_and_goes_without_a_trace() -> None:
    environment = {**os.environ, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "10"}

    daemon = adopt_or_start(PLACE, environment)
    try:
        process = psutil.Process(daemon.pid)
        assert process.environ()["CUDA_VISIBLE_DEVICES"] == UUID
        # Inherited, it would be every client's ceiling.
        assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in process.environ()
        assert daemon.ceiling_percent == 100
        pipes = daemon.control.pipe_directory
        assert pipes.stat().st_mode & 0o777 == 0o700
        assert len(str(pipes / "control")) < 100
        daemon.control.ask(f"start_server -uid {os.getuid()}")
        (server,) = daemon.control.servers()
        assert daemon.control.status(server) == "ACTIVE"
    finally:
        stop(daemon)

    assert not psutil.pid_exists(daemon.pid)
    assert not psutil.pid_exists(server)
    assert daemon.folder is not None
    assert not daemon.folder.exists()


def test_a_daemon_that_we_are_pointed_to_is_adopted_and_left_running(pipes: Path) -> None:
    begin(pipes, CUDA_VISIBLE_DEVICES=UUID, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="30")

    daemon = adopt_or_start(PLACE, asked(pipes))

    assert (daemon.is_ours, daemon.ceiling_percent, daemon.visible) == (False, 30, UUID)
    stop(daemon)
    assert psutil.pid_exists(daemon.pid)
    daemon.control.quit()


@pytest.mark.parametrize("scope", ["", f"{UUID},GPU-2", "0"])
def test_a_daemon_of_more_than_this_gpu_is_refused(pipes: Path, scope: str) -> None:
    begin(pipes, **({"CUDA_VISIBLE_DEVICES": scope} if scope else {}))

    with pytest.raises(MpsError, match=f"not {UUID} alone") as caught:
        adopt_or_start(PLACE, asked(pipes))

    assert caught.value.problem is MpsProblem.FOREIGN_SCOPE
    assert caught.value.exit_code == 5


def test_another_users_daemon_is_refused(pipes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(pipes, CUDA_VISIBLE_DEVICES=UUID)
    monkeypatch.setattr(os, "getuid", lambda: 4242)

    with pytest.raises(MpsError, match=r"belongs to user .* and this process to 4242") as caught:
        adopt_or_start(PLACE, asked(pipes))

    assert caught.value.problem is MpsProblem.FOREIGN_USER


def test_a_dead_daemon_is_named(pipes: Path) -> None:
    with pytest.raises(MpsError, match="no MPS daemon listens in") as caught:
        adopt_or_start(PLACE, asked(pipes))

    assert caught.value.problem is MpsProblem.NO_DAEMON


def test_the_pid_of_a_daemon_that_is_another_process_by_now(pipes: Path) -> None:
    (pipes / f"{BINARY}.pid").write_text(f"{os.getpid()}\n")

    with pytest.raises(MpsError, match="no MPS daemon listens in"):
        adopt_or_start(PLACE, asked(pipes))


def test_a_daemon_that_hangs_is_named_in_time(gpu_machine: GpuMachine, pipes: Path) -> None:
    begin(pipes, CUDA_VISIBLE_DEVICES=UUID)
    gpu_machine.mps(hang=["get_default_active_thread_percentage", "get_server_list"])
    started = time.monotonic()

    with pytest.raises(MpsError, match="did not answer") as caught:
        adopt_or_start(PLACE, asked(pipes))

    assert caught.value.problem is MpsProblem.HANGS
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    "answer",
    ["CUDA_ERROR_UNKNOWN\n", "Usage: quit\n", "\x00\xff\n"],
    ids=["error", "text", "noise"],
)
def test_an_answer_that_makes_no_sense_is_shown(
    gpu_machine: GpuMachine, pipes: Path, answer: str
) -> None:
    begin(pipes, CUDA_VISIBLE_DEVICES=UUID)
    gpu_machine.mps(lie={"get_server_list": answer})

    with pytest.raises(MpsError, match="answered 'get_server_list' with") as caught:
        Control(pipe_directory=pipes).servers()

    assert caught.value.problem is MpsProblem.REFUSES


def test_a_daemon_that_does_not_start_leaves_nothing(gpu_machine: GpuMachine, pipes: Path) -> None:
    gpu_machine.mps(stillborn="Failed to start: mps is not supported on this device")

    with pytest.raises(MpsError, match="not supported on this device"):
        adopt_or_start(PLACE, os.environ, root=pipes)

    assert not list(pipes.iterdir())


def test_no_control_binary(gpu_machine: GpuMachine) -> None:
    with pytest.raises(MpsError, match="not on PATH") as caught:
        adopt_or_start(PLACE, {**os.environ, "PATH": "/nowhere"})

    assert caught.value.problem is MpsProblem.NO_BINARY


@pytest.fixture
def divided(gpu_machine: GpuMachine) -> Iterator[Daemon]:
    daemon = start(PLACE, BINARY, os.environ, static=True)
    yield daemon
    stop(daemon)


def test_partitions_are_set_aside_and_given_back(divided: Daemon) -> None:
    name = divided.control.add_partition(UUID, 5)

    (partition,) = divided.control.partitions()
    assert (partition.name, partition.chunks, partition.sms) == (name, 5, 40)
    with pytest.raises(MpsError, match="INVALID_RESOURCE_CONFIGURATION"):
        divided.control.add_partition(UUID, 12)
    divided.control.remove_partition(name)
    assert divided.control.partitions() == ()


def test_a_driver_without_partitions_says_so(gpu_machine: GpuMachine, divided: Daemon) -> None:
    gpu_machine.mps(chunk=0)

    with pytest.raises(MpsError, match="not enabled"):
        divided.control.add_partition(UUID, 1)
