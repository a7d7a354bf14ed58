"""The mark that all processes of a run carry, and who carries it."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

#: In the environment of every process that belongs to a run; the value is the run's id.
MARKER = "TUNE_FARM_RUN"


def mark(run_id: str) -> None:
    """Mark this process and all it will start as parts of a run."""
    os.environ[MARKER] = run_id


def processes_of(run_id: str, folder: Path | None = None) -> list[psutil.Process]:
    """All other live processes that carry a run's mark.

    Args:
        run_id: the mark.
        folder: of the run alone; who has lost the mark is known by a file in there.
    """
    found = []
    for process in psutil.process_iter():
        try:
            is_ours = process.pid != os.getpid() and (
                carries(process.pid, run_id)
                or (folder is not None and has_lost_all_for(process.pid, folder))
            )
            if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue  # gone, or another user's
    return found


def carries(pid: int, run_id: str, root: Path = Path("/proc")) -> bool:
    """Whether a process carries a run's mark.

    A process that changed its title, as Ray's agents do, has holes in the memory of its
    environment, and psutil reads up to the first: here it is read to its end.

    Raises:
        OSError: the process is gone, or another user's.
    """
    words = (root / str(pid) / "environ").read_bytes().split(b"\0")
    return f"{MARKER}={run_id}".encode() in words


def has_lost_all_for(pid: int, folder: Path, root: Path = Path("/proc")) -> bool:
    """Whether a process has no environment any more, and a file of a folder open.

    A new title can take the memory of the whole environment; Ray's agents keep their logs open.

    Raises:
        OSError: the process is gone, or another user's.
    """
    own = root / str(pid)
    if (own / "environ").read_bytes().strip(b"\0"):
        return False
    return any(each.readlink().is_relative_to(folder) for each in (own / "fd").iterdir())
