from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.client.share.mps.test_daemon import PLACE, UUID
from tests.doubles.fixtures import GpuMachine
from tests.doubles.nvml.machine import Card
from tests.tuner.records_of import candidate, plain_task
from tune_farm.client.share.lane import Lane
from tune_farm.client.share.mps.child import PATH, ROLE
from tune_farm.client.share.mps.control import BINARY
from tune_farm.client.share.mps.daemon import Daemon, start, stop
from tune_farm.client.share.mps.errors import MpsError, MpsProblem
from tune_farm.client.share.mps.handshake import Expected
from tune_farm.client.share.seat import GpuSeat
from tune_farm.client.share.seat_guard import SeatGuard
from tune_farm.client.sim.child import BEHAVIOR
from tune_farm.tuner.interfaces import Artifact
from tune_farm.tuner.measure.messages import Timing
from tune_farm.tuner.measure.runner import ChildRunner, RunOptions
from tune_farm.tuner.types import Clocks, Failed, Fault, Measured

_CLOCKS = """
import dataclasses, json, sys
from pathlib import Path
from tune_farm.client.share.lane import Lane
from tune_farm.client.share.mps.handshake import Expected
from tune_farm.client.share.seat import GpuSeat
from tune_farm.client.share.seat_guard import SeatGuard
expected = Expected(uuid=sys.argv[1], total=132, percent=100)
seat = GpuSeat(expected=expected, environment=(), control=None)
print(json.dumps(dataclasses.asdict(SeatGuard(Lane(Path("."), "all"), seat).clocks())))
"""
CALM = json.dumps({"noise": 0.0, "busy": 0.0, "slowdown": 1.0})
QUARTER = Expected(uuid=UUID, total=132, percent=25)


def seat_of(daemon: Daemon) -> GpuSeat:
    """A quarter of the GPU."""
    born = tuple(daemon.environment(25).items())
    return GpuSeat(expected=QUARTER, environment=born, control=daemon.control)


@pytest.fixture
def daemon(gpu_machine: GpuMachine) -> Iterator[Daemon]:
    found = start(PLACE, BINARY, os.environ)
    yield found
    stop(found)


def runner_of(daemon: Daemon, scratch: Path, **environment: str) -> ChildRunner:
    """Measures with simulated kernels, in a process that is a client of the daemon."""
    return ChildRunner(
        cores=tuple(sorted(os.sched_getaffinity(0))),
        scratch=scratch,
        options=RunOptions(timing=Timing(repeats=2, repeat_seconds=1e-3), timeout_seconds=1.0),
        name="quarter",
        role=PATH,
        environment={
            **daemon.environment(25),
            ROLE: "tune_farm.client.sim.child",
            BEHAVIOR: CALM,
            **environment,
        },
        guard=SeatGuard(Lane(scratch / "lane", "quarter"), seat_of(daemon)),
    )


@pytest.fixture
def runner(daemon: Daemon, tmp_path: Path) -> Iterator[ChildRunner]:
    found = runner_of(daemon, tmp_path)
    found.select(plain_task(), 1e-3)
    (tmp_path / f"reference-{plain_task().id}.npz").touch()
    yield found
    found.close()


def kernel(folder: Path, seconds: float) -> Artifact:
    path = folder / "kernel.json"
    path.write_text(json.dumps({"seconds": seconds, "faults": False}))
    return Artifact(candidate=candidate(1), path=path, build_seconds=0.0)


def clients(daemon: Daemon) -> tuple[int, ...]:
    (server,) = daemon.control.servers()
    return daemon.control.clients(server)


def test_a_child_under_its_share_measures(
    daemon: Daemon, runner: ChildRunner, tmp_path: Path
) -> None:
    report = runner.run(kernel(tmp_path, 1e-5), incumbent_seconds=None)

    assert isinstance(report.outcome, Measured)
    assert len(clients(daemon)) == 1
    runner.close()
    assert clients(daemon) == ()


def test_a_report_tells_the_clocks_of_its_gpu(
    runner: ChildRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = Clocks(sm_hertz=1.98e9, memory_hertz=None, events=("power cap",))
    monkeypatch.setattr(SeatGuard, "clocks", lambda _: clocks)

    assert runner.run(kernel(tmp_path, 1e-5), incumbent_seconds=None).clocks == clocks


def test_the_clocks_are_those_of_the_seats_gpu(gpu_machine: GpuMachine) -> None:
    cards = [Card(uuid=f"GPU-{each}", more={"clock.sm": each * 100}) for each in (7, 8)]
    gpu_machine.cards(*cards)

    assert json.loads(gpu_machine.python(_CLOCKS, "GPU-8"))["sm_hertz"] == 8e8


def test_a_child_that_is_stuck_leaves_mps_before_it_is_killed(
    gpu_machine: GpuMachine, daemon: Daemon, runner: ChildRunner, tmp_path: Path
) -> None:
    (stuck,) = clients(daemon)
    runner.timing = Timing(repeats=2, repeat_seconds=60.0)

    report = runner.run(kernel(tmp_path, 30.0), incumbent_seconds=None)

    assert isinstance(report.outcome, Failed)
    assert report.outcome.fault is Fault.RUN_TIMEOUT
    assert not psutil.pid_exists(stuck)
    assert stuck not in clients(daemon)
    assert daemon.folder is not None
    log = (daemon.folder / "log" / "control.log").read_text()
    # The daemon tells whether the process was still there when its work was ended.
    assert f"terminate_client {stuck}: alive" in log


def test_where_the_daemon_hangs_the_child_is_killed_all_the_same(
    gpu_machine: GpuMachine,
    daemon: Daemon,
    runner: ChildRunner,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (pid,) = clients(daemon)
    gpu_machine.mps(hang=["get_server_list"])

    runner.close()

    assert not psutil.pid_exists(pid)
    assert "may still know it" in caplog.text
    gpu_machine.mps()


def test_nothing_is_measured_where_the_share_is_not_in_force(
    gpu_machine: GpuMachine, daemon: Daemon, tmp_path: Path
) -> None:
    with pytest.raises(MpsError) as caught:
        runner_of(daemon, tmp_path, CUDA_DOUBLE_DEAF="1")

    assert caught.value.problem is MpsProblem.NOT_IN_FORCE
    assert caught.value.exit_code == 5
