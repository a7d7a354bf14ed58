"""All that belongs to a run is found by its mark, ended, and swept away by the next."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.tuner.waiting import is_gone
from tune_farm.server.processes import (
    MARKER,
    carries,
    end_leftovers,
    make_temp_dir,
    mark,
    processes_of,
)

RUN_ID = f"test-{os.getpid()}"


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a marked process that would sleep for long, or for so many seconds."""
    monkeypatch.setenv(MARKER, "")
    mark(RUN_ID)
    started: list[subprocess.Popen[bytes]] = []

    def make(seconds: float = 600, **options: bool) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", str(seconds)], **options))  # type: ignore[call-overload]
        return started[-1]

    yield make
    for process in started:
        process.kill()
        process.wait()


def test_children_inherit_the_mark_also_in_a_session_of_their_own(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    pids = {start().pid, start(start_new_session=True).pid}

    assert {process.pid for process in processes_of(RUN_ID)} == pids


def test_an_environment_with_holes_is_read_to_its_end(tmp_path: Path) -> None:
    # As of Ray's agents, which change their titles.
    (tmp_path / "41").mkdir()
    (tmp_path / "41" / "environ").write_bytes(b"A=1\0\0\0\0TUNE_FARM_RUN=a-run\0B=2\0")

    assert carries(41, "a-run", tmp_path)
    assert not carries(41, "a-ru", tmp_path)


def test_other_runs_and_this_process_are_not_found(
    start: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARKER, "another")
    start()

    assert processes_of(RUN_ID) == []
    assert os.getpid() not in {process.pid for process in processes_of("another")}


def test_what_has_ended_is_not_found(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = start()
    process.kill()
    psutil.Process(process.pid).status()  # a zombie until its parent asks

    assert processes_of(RUN_ID) == [] or is_gone(process.pid)


def test_what_does_not_end_by_itself_is_ended_and_named(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    stubborn = start()

    assert end_leftovers(RUN_ID, 0.1) == ["sleep 600"]
    assert stubborn.wait(timeout=10) == -9
    assert end_leftovers(RUN_ID, 0.0) == []


def test_what_ends_in_time_is_left_to_itself(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    quick = start(0.2)

    assert end_leftovers(RUN_ID, 30.0) == []
    assert quick.wait() == 0


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temp folder whose path is short enough."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="t"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _clean(root: Path) -> Iterator[None]:
    yield
    subprocess.run(["rm", "-rf", str(root)], check=True)


def make_owned(root: Path, name: str, owner: str) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "owner").write_text(owner)
    (folder / "session").write_text("left over")
    return folder


def test_the_folder_is_private_short_and_says_whose_it_is(root: Path) -> None:
    folder = make_temp_dir()

    assert folder.parent == root
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(str(folder)) < 45
    pid, _ = (folder / "owner").read_text().split()
    assert int(pid) == os.getpid()


def test_folders_of_the_dead_are_swept_and_those_of_the_living_stay(root: Path) -> None:
    process = subprocess.Popen(["true"])
    created = psutil.Process(process.pid).create_time()
    process.wait()
    dead = make_owned(root, "tf-dead", f"{process.pid} {created}\n")
    reused = make_owned(root, "tf-reused", f"{os.getpid()} 12345.0\n")
    unreadable = make_owned(root, "tf-odd", "nonsense")
    foreign = make_owned(root, "other", f"{process.pid} {created}\n")
    alive = make_temp_dir()

    again = make_temp_dir()

    assert not dead.exists()
    assert not reused.exists()
    assert unreadable.exists()
    assert foreign.exists()
    assert alive.exists()
    assert again.exists()


def test_a_long_temp_folder_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 40)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))

    folder = make_temp_dir()
    try:
        assert folder.parent == Path("/tmp")
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
