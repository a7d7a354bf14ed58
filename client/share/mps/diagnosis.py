"""Why MPS refused a client: from what its daemon says, and from what the two do not share."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil

from tune_farm.client.share.mps.control import Control
from tune_farm.client.share.mps.daemon import process_of
from tune_farm.client.share.mps.errors import MpsError, MpsProblem
from tune_farm.client.share.plan import CONTEXTS, CONTEXTS_SINCE_13_1


def refused(
    number: int, error: str, *, visible: str | None, uuid: str, control: Control
) -> MpsError:
    """What an error of the CUDA driver means for a client of a daemon.

    Args:
        number: CUresult.
        error: its text.
        visible: CUDA_VISIBLE_DEVICES of the client; None: it had none.
        uuid: of the device that it should have got.
        control: the daemon.
    """
    where = f"the MPS daemon in {control.pipe_directory}"
    problem = MpsError.of_cuda(number, "").problem
    if problem is MpsProblem.WRONG_DEVICE:
        return MpsError(problem, f"{error}: {unseen(visible, uuid, where)}")
    if problem is MpsProblem.NOT_ATTACHED:
        differing = "; ".join(unshared(control)) or (
            "pipe directory, user and /dev/shm are the daemon's; its control.log may tell more"
        )
        return MpsError(problem, f"{error}: {where} was not reached: {differing}")
    if problem is MpsProblem.FAULT:
        return _not_ready(error, where, control)
    if problem in (MpsProblem.FULL, MpsProblem.EXCLUSIVE):
        count = _count(control)
        if count:  # "busy" is what NVIDIA's driver says of a GPU that has no room for one more, too
            limit = (
                f"a server takes {CONTEXTS} contexts, {CONTEXTS_SINCE_13_1} from CUDA 13.1, in a "
                "MIG instance its part, and as many as memory holds"
            )
            return MpsError(MpsProblem.FULL, f"{error}; {where} has {count} clients: {limit}")
    return MpsError(problem, f"{error}; {where}")


def unseen(visible: str | None, uuid: str, where: str) -> str:
    """Why a client does not see a device."""
    if visible is not None and visible and uuid.startswith(visible):
        return f"{where} does not offer {uuid}"
    value = "not set" if visible is None else repr(visible)
    return f"CUDA_VISIBLE_DEVICES of the client is {value}, and has to be {uuid}"


def unshared(
    control: Control,
    *,
    proc: Path = Path("/proc"),
    shm: Path = Path("/dev/shm"),  # noqa: S108
) -> tuple[str, ...]:
    """What of a daemon's surroundings this process does not share, or can't compare.

    Args:
        control: the daemon.
        proc: where processes are shown; another only in tests.
        shm: shared memory of this process; another only in tests.
    """
    folder = control.pipe_directory
    try:
        owner = folder.stat().st_uid
    except OSError:
        return (f"its pipe directory {folder} does not exist here",)
    found = []
    if not (folder / "control").exists():
        found.append(f"its pipe directory {folder} has no socket 'control'")
    if owner != os.getuid():
        found.append(f"it belongs to user {owner}, and this process to {os.getuid()}")
    process = process_of(folder)
    try:
        if process is None:
            found.append("its process is not seen here (a container?), nor so its /dev/shm")
        elif not (proc / str(process.pid) / "root/dev/shm").samefile(shm):
            found.append("its /dev/shm is not this process's")
    except OSError:
        found.append("its /dev/shm can't be compared from here")
    return tuple(found)


def _not_ready(error: str, where: str, control: Control) -> MpsError:
    servers = control.servers()
    if not servers:
        return MpsError(MpsProblem.NOT_READY, f"{error}; {where} has no server")
    for server in servers:
        status = control.status(server)
        if status == "FAULT":
            pids = ", ".join(map(str, control.clients(server))) or "its clients"
            return MpsError(
                MpsProblem.FAULT,
                f"{error}; server {server} of {where} is FAULT until processes {pids} have ended",
            )
        owner = _user(server)
        if owner not in (None, os.getuid()):
            return MpsError(
                MpsProblem.FOREIGN_USER,
                f"{error}; server {server} of {where} belongs to user {owner}, and this process to "
                f"{os.getuid()}",
            )
    states = " and ".join(f"{pid} is {control.status(pid)}" for pid in servers)
    return MpsError(MpsProblem.NOT_READY, f"{error}; server {states} of {where}")


def _count(control: Control) -> int:
    with contextlib.suppress(MpsError):
        return sum(len(control.clients(server)) for server in control.servers())
    return 0


def _user(pid: int) -> int | None:
    try:
        return int(psutil.Process(pid).uids().real)
    except psutil.Error:
        return None  # of another pid namespace
