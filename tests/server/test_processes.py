"""All that belongs to a run is found by its mark, ended, and swept away by the next."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.tuner.children.sleepers import Starter, sleepers
from tune_farm.server.processes import end_leftovers, make_temp_dir
from tune_farm.tuner.children.mark import MARKER

RUN_ID = f"test-{os.getpid()}"


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Starter]:
    """Starts marked processes."""
    monkeypatch.setenv(MARKER, "")
    with sleepers(RUN_ID) as starter:
        yield starter


def test_what_does_not_end_by_itself_is_ended_and_named(start: Starter) -> None:
    stubborn = start()

    assert end_leftovers(RUN_ID, 0.1) == ["sleep 600"]
    assert stubborn.wait(timeout=10) == -9
    assert end_leftovers(RUN_ID, 0.0) == []


def test_what_ends_in_time_is_left_to_itself(start: Starter) -> None:
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
