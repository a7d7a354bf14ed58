"""What a run leaves on a machine: its temporary directory, and processes that outlive it."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import psutil

from tune_farm.tuner.children.mark import processes_of

_PREFIX = "tf-"
_OWNER = "owner"
#: Ray puts sockets into its temp dir whose paths may not exceed 107 bytes (AF_UNIX).
_LONGEST_ROOT = 30


def make_temp_dir() -> Path:
    """Make this run's short, private, node-local directory; sweeps those whose owner is dead."""
    root = Path(tempfile.gettempdir())
    if len(str(root)) > _LONGEST_ROOT:
        root = Path("/tmp")  # noqa: S108 - made private by mkdtemp
    _sweep(root)
    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
    me = psutil.Process()
    (path / _OWNER).write_text(f"{me.pid} {me.create_time()}\n")
    return path


def end_leftovers(run_id: str, grace_seconds: float, folder: Path | None = None) -> list[str]:
    """Wait for all other processes of a run to end, then end them.

    Args:
        run_id: the run.
        grace_seconds: how long to wait.
        folder: of the run alone, as `processes_of` takes it.

    Returns:
        The command lines of those that had to be ended.
    """
    deadline = time.monotonic() + grace_seconds
    while (left := processes_of(run_id, folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    ended = []
    for process in left:
        try:
            ended.append(" ".join(process.cmdline()))
            process.kill()
        except psutil.Error:
            continue  # it ended meanwhile
    return ended


def _sweep(root: Path) -> None:
    for owner in root.glob(f"{_PREFIX}*/{_OWNER}"):
        try:
            pid, created = owner.read_text().split()
            if owner.stat().st_uid == os.getuid() and not _is_alive(int(pid), float(created)):
                shutil.rmtree(owner.parent, ignore_errors=True)
        except (OSError, ValueError):
            continue  # swept by another run meanwhile, or not ours at all


def _is_alive(pid: int, created: float) -> bool:
    try:
        return abs(psutil.Process(pid).create_time() - created) < 1.0
    except psutil.Error:
        return False
