"""What one client's fault, or its end, does to those beside it on the same GPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.client.share.mps.test_daemon import PLACE
from tests.client.share.test_seat_guard import seat_of
from tests.doubles.fixtures import GpuMachine
from tests.tuner.records_of import DEVICE, SHARE, candidate, plain_task
from tune_farm.client.share.lane import Lane
from tune_farm.client.share.mps.child import PATH, ROLE
from tune_farm.client.share.mps.control import BINARY
from tune_farm.client.share.mps.daemon import Daemon, start, stop
from tune_farm.client.share.seat_guard import SeatGuard
from tune_farm.tuner.interfaces import Artifact, BuildFailure, Proposal, RunReport
from tune_farm.tuner.loop import Bench, Station, measure
from tune_farm.tuner.measure.runner import ChildRunner, RunOptions
from tune_farm.tuner.types import Candidate, Failed, Fault, Measured, Purpose, Record

ROOT = Path(__file__).parents[3]
TASK = plain_task()


@pytest.fixture
def daemon(gpu_machine: GpuMachine) -> Iterator[Daemon]:
    found = start(PLACE, BINARY, os.environ)
    yield found
    stop(found)


Clients = Callable[[str], ChildRunner]


@pytest.fixture
def client(daemon: Daemon, tmp_path: Path) -> Iterator[Clients]:
    runners: list[ChildRunner] = []

    def begin(name: str) -> ChildRunner:
        scratch = tmp_path / name
        scratch.mkdir()
        runner = ChildRunner(
            cores=tuple(sorted(os.sched_getaffinity(0))),
            scratch=scratch,
            options=RunOptions(timeout_seconds=2.0),
            name=name,
            role=PATH,
            environment={
                **daemon.environment(25),
                ROLE: "tests.doubles.kernels",
                "PYTHONPATH": str(ROOT),
            },
            guard=SeatGuard(Lane(tmp_path / "lane", name), seat_of(daemon)),
        )
        runner.select(TASK, 1e-3)
        (scratch / f"reference-{TASK.id}.npz").touch()
        runners.append(runner)
        return runner

    yield begin
    for runner in runners:
        runner.close()


class Kernels:
    """A builder of kernels that take so long, or fault."""

    def __init__(self, folder: Path, seconds: float, faulty: frozenset[str] = frozenset()) -> None:
        self._folder = folder
        self._seconds = seconds
        self._faulty = faulty

    def build(self, candidates: list[Candidate]) -> Iterator[Artifact | BuildFailure]:
        for each in candidates:
            path = self._folder / f"{each.id}.json"
            kernel = {"seconds": self._seconds, "faults": each.id in self._faulty}
            path.write_text(json.dumps(kernel))
            yield Artifact(candidate=each, path=path, build_seconds=0.0)


def measured_by(runner: ChildRunner, builder: Kernels, count: int, first: int) -> list[Record]:
    bench = Bench(
        builder=builder,  # type: ignore[arg-type]
        runner=runner,
        station=Station(device=DEVICE, share=SHARE, client="a client", corunners=1),
        turn=None,
        should_stop=lambda: False,
        is_shared=True,
    )
    proposals = [
        Proposal(candidate=candidate(number), purpose=Purpose.SEARCH)
        for number in range(first, first + count)
    ]
    return list(measure(proposals, bench=bench, incumbent_seconds=None))


def outcomes(records: list[Record]) -> dict[str, list[str]]:
    """By candidate, what each attempt gave."""
    found: dict[str, list[str]] = {}
    for record in sorted(records, key=lambda each: each.attempt):
        outcome = record.outcome
        word = outcome.fault.value if isinstance(outcome, Failed) else "measured"
        found.setdefault(record.candidate.id, []).append(word)
    return found


def test_a_fault_taints_what_ran_beside_it_and_all_of_that_is_measured_again(
    daemon: Daemon, client: Clients, tmp_path: Path
) -> None:
    faulty, calm = client("faulty"), client("calm")
    bad = candidate(2).id
    records: dict[str, list[Record]] = {}

    def work(name: str, runner: ChildRunner, first: int, kernels: Kernels) -> None:
        records[name] = measured_by(runner, kernels, 4, first)

    folders = [tmp_path / name for name in ("faulty", "calm")]
    threads = [
        threading.Thread(
            target=work, args=("faulty", faulty, 0, Kernels(folders[0], 0.15, frozenset({bad})))
        ),
        threading.Thread(target=work, args=("calm", calm, 10, Kernels(folders[1], 0.3))),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    told = outcomes(records["faulty"])
    # Beside the other it failed, and alone as well: it is the one.
    assert told.pop(bad)[-1] == "illegal_access"
    assert {each[-1] for each in told.values()} == {"measured"}
    beside = outcomes(records["calm"])
    assert {each[-1] for each in beside.values()} == {"measured"}
    tainted = [each for each in beside.values() if len(each) > 1]
    assert tainted, "the fault came while the other measured"
    assert {word for each in tainted for word in each[:-1]} <= {"contended", "run_error"}
    # All left, so the server takes clients again, and nobody stays behind.
    (server,) = daemon.control.servers()
    assert daemon.control.status(server) == "ACTIVE"


def test_an_idle_neighbor_lets_go_of_a_broken_device(
    daemon: Daemon, client: Clients, tmp_path: Path
) -> None:
    faulty, idle = client("faulty"), client("idle")
    bad = candidate(0)
    over = threading.Event()

    def rest() -> None:
        while not over.is_set():
            idle.rest()
            time.sleep(0.05)

    thread = threading.Thread(target=rest)
    thread.start()
    try:
        records = measured_by(faulty, Kernels(tmp_path / "faulty", 0.05, frozenset({bad.id})), 2, 0)
    finally:
        over.set()
        thread.join()

    # The second was measured: the server came back because the idle one left it.
    assert outcomes(records)[candidate(1).id] == ["measured"]
    assert outcomes(records)[bad.id] == ["illegal_access", "illegal_access"]


def test_a_client_ended_in_mid_kernel_leaves_first_and_its_neighbor_measures_again(
    daemon: Daemon, client: Clients, tmp_path: Path
) -> None:
    stuck, calm = client("stuck"), client("calm")
    records: list[Record] = []
    reports: list[RunReport] = []

    def get_stuck() -> None:
        (built,) = Kernels(tmp_path / "stuck", 60.0).build([candidate(99)])
        assert isinstance(built, Artifact)
        reports.append(stuck.run(built, incumbent_seconds=None))

    thread = threading.Thread(target=get_stuck)
    thread.start()
    records += measured_by(calm, Kernels(tmp_path / "calm", 0.7), 5, 0)
    thread.join(30)

    (report,) = reports
    assert isinstance(report.outcome, Failed)
    assert report.outcome.fault is Fault.RUN_TIMEOUT
    found = outcomes(records)
    assert len(found) == 5
    assert {each[-1] for each in found.values()} == {"measured"}
    assert ["contended", "measured"] in found.values()
    failed = [each.outcome.detail for each in records if isinstance(each.outcome, Failed)]
    assert all("stuck disturbed the device meanwhile: stopped after" in each for each in failed)
    assert daemon.folder is not None
    log = (daemon.folder / "log" / "control.log").read_text()
    assert "terminate_client" in log
    assert ": gone" not in log  # nobody was killed before its work was ended


_OWNER = """
import os, sys, time
from pathlib import Path
from tune_farm.client.share.mps.child import PATH, ROLE
from tune_farm.tuner.children.spawn import Birth, Child
from tune_farm.tuner.measure.messages import MeasureJob, Timing
scratch = Path(sys.argv[1])
child = Child(Birth(role=PATH, name="orphan", cores=tuple(os.sched_getaffinity(0)), threads=1,
                    scratch=scratch, environment={ROLE: "tests.doubles.kernels"}))
child.receive(20)
child.send("begin")
child.receive(20)
child.send(MeasureJob(task_id="t", arguments=(), reduction_length=1, library=sys.argv[2],
                      reference="", checks=False, makes_reference=False, timing=Timing(),
                      incumbent_seconds=None))
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_child_whose_parent_is_killed_in_mid_kernel_leaves_mps_by_itself(
    daemon: Daemon, tmp_path: Path
) -> None:
    (built,) = Kernels(tmp_path, 60.0).build([candidate(0)])
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(tmp_path), str(built.path)],  # type: ignore[union-attr]
        env={**os.environ, **daemon.environment(25), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    orphan = int(owner.stdout.readline())
    time.sleep(0.2)  # the kernel runs

    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()

    deadline = time.monotonic() + 10
    while psutil.pid_exists(orphan) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(orphan)
    assert daemon.folder is not None
    log = (daemon.folder / "log" / "control.log").read_text()
    assert f"terminate_client {orphan}: alive" in log


def test_measured_alone_nothing_is_tainted(client: Clients, tmp_path: Path) -> None:
    runner = client("only")
    records = measured_by(runner, Kernels(tmp_path / "only", 0.02), 3, 0)

    assert all(isinstance(record.outcome, Measured) for record in records)
