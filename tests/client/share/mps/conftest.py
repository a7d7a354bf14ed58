from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.client.share.mps.test_daemon import PLACE
from tests.doubles.fixtures import GpuMachine
from tune_farm.client.share.mps.control import BINARY
from tune_farm.client.share.mps.daemon import Daemon, start, stop
from tune_farm.client.share.mps.handshake import Attached
from tune_farm.tuner.children.spawn import Birth, Child


@pytest.fixture
def pipes(gpu_machine: GpuMachine, tmp_path: Path) -> Iterator[Path]:
    """A pipe directory short enough for a socket, of a daemon that a test may start."""
    folder = Path(f"/tmp/tf-test-{os.getpid()}")
    folder.mkdir()
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.fixture
def daemon(gpu_machine: GpuMachine) -> Iterator[Daemon]:
    found = start(PLACE, BINARY, os.environ)
    yield found
    stop(found)


@pytest.fixture
def client(tmp_path: Path, daemon: Daemon) -> Iterator[Callable[..., Attached]]:
    """Starts a process under a share, which stays; what it says of itself."""
    children: list[Child] = []

    def begin(percent: float, partition: str | None = None, **environment: str) -> Attached:
        child = Child(
            Birth(
                role="tune_farm.client.share.mps.handshake",
                name=f"client-{len(children)}",
                cores=tuple(sorted(os.sched_getaffinity(0))),
                threads=1,
                scratch=tmp_path,
                environment={**daemon.environment(percent, partition), **environment},
            )
        )
        children.append(child)
        attached = child.receive(20)
        assert isinstance(attached, Attached)
        return attached

    yield begin
    for child in children:
        child.kill()
