"""What belongs to a run carries its mark, and is found by it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.tuner.children.sleepers import Starter, sleepers
from tests.tuner.waiting import is_gone
from tune_farm.tuner.children.mark import MARKER, carries, has_lost_all_for, processes_of

RUN_ID = f"test-{os.getpid()}"


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Starter]:
    """Starts marked processes."""
    monkeypatch.setenv(MARKER, "")
    with sleepers(RUN_ID) as starter:
        yield starter


def test_children_inherit_the_mark_also_in_a_session_of_their_own(start: Starter) -> None:
    pids = {start().pid, start(start_new_session=True).pid}

    assert {process.pid for process in processes_of(RUN_ID)} == pids


def test_an_environment_with_holes_is_read_to_its_end(tmp_path: Path) -> None:
    # As of Ray's agents, which change their titles.
    (tmp_path / "41").mkdir()
    (tmp_path / "41" / "environ").write_bytes(b"A=1\0\0\0\0TUNE_FARM_RUN=a-run\0B=2\0")

    assert carries(41, "a-run", tmp_path)
    assert not carries(41, "a-ru", tmp_path)


def test_who_has_lost_its_environment_is_known_by_its_files(tmp_path: Path) -> None:
    # As of Ray's agents, too: nothing but zeros is left of it.
    folder = tmp_path / "tf-run"
    (tmp_path / "41" / "fd").mkdir(parents=True)
    (tmp_path / "41" / "environ").write_bytes(b"\0" * 100)
    (tmp_path / "41" / "fd" / "1").symlink_to(folder / "logs" / "agent.out")

    assert has_lost_all_for(41, folder, tmp_path)
    assert not has_lost_all_for(41, tmp_path / "tf", tmp_path)
    (tmp_path / "41" / "environ").write_bytes(b"PATH=/bin\0")
    assert not has_lost_all_for(41, folder, tmp_path)


def test_a_process_without_environment_that_writes_there_is_found(tmp_path: Path) -> None:
    log = tmp_path / "agent.out"
    with log.open("w") as stream:
        agent = subprocess.Popen(["sleep", "600"], env={}, stdout=stream)
    try:
        assert [each.pid for each in processes_of("no run", tmp_path)] == [agent.pid]
        assert processes_of("no run", tmp_path / "other") == []
    finally:
        agent.kill()
        agent.wait()


def test_other_runs_and_this_process_are_not_found(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARKER, "another")
    start()

    assert processes_of(RUN_ID) == []
    assert os.getpid() not in {process.pid for process in processes_of("another")}


def test_what_has_ended_is_not_found(start: Starter) -> None:
    process = start()
    process.kill()
    psutil.Process(process.pid).status()  # a zombie until its parent asks

    assert processes_of(RUN_ID) == [] or is_gone(process.pid)
