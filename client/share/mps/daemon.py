"""Finds the MPS daemon of a GPU, or starts one; only what was started here is ended here."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tune_farm.client.devices.granted import VISIBLE, GpuPlace
from tune_farm.client.share.mps.control import (
    BINARY,
    PIPE_DIRECTORY,
    USUAL_PIPES,
    Control,
    find_binary,
    run,
)
from tune_farm.client.share.mps.errors import MpsError, MpsProblem

LOG_DIRECTORY = "CUDA_MPS_LOG_DIRECTORY"
PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
PARTITION = "CUDA_MPS_SM_PARTITION"
MEMORY = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
#: Inherited, they would bind the daemon, and with it all clients.
_OF_CLIENTS = (
    PERCENTAGE,
    PARTITION,
    "CUDA_MPS_CLIENT_PRIORITY",
    MEMORY,
)
_FOLDER, _ROOT = "tf-mps-", "/tmp"  # noqa: S108 - made private by mkdtemp
_START_SECONDS = 10.0
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A daemon that serves one GPU or MIG instance."""

    control: Control
    uuid: str  # of the device
    pid: int
    ceiling_percent: float  # no client gets more
    is_ours: bool  # started here
    visible: str  # CUDA_VISIBLE_DEVICES of its clients: what it itself was started with, or nothing
    folder: Path | None = None  # of pipes and logs, ours to remove

    def environment(
        self,
        percent: float | None,
        partition: str | None = None,
        memory_bytes: int | None = None,
    ) -> dict[str, str]:
        """What a client is born with.

        Args:
            percent: its share; None: what the daemon gives.
            partition: its static partition.
            memory_bytes: what it may allocate; None: what is there.
        """
        found = {PIPE_DIRECTORY: str(self.control.pipe_directory), VISIBLE: self.visible}
        if percent is not None:
            found[PERCENTAGE] = f"{percent:g}"
        if partition is not None:
            found[PARTITION] = partition
        if memory_bytes is not None:
            found[MEMORY] = f"0={memory_bytes >> 20}M"  # of the one device that it sees
        return found


def adopt_or_start(
    place: GpuPlace, environment: Mapping[str, str], *, root: Path | None = None
) -> Daemon:
    """The daemon for a device.

    Args:
        place: the device.
        environment: of this process.
        root: short and node-local; the folder of a new daemon is made there. None: in /tmp.

    Raises:
        MpsError: the one that listens is not usable, or none can be started.
    """
    found = listening(place, environment)
    return found or start(place, find_binary(environment.get("PATH")), environment, root=root)


def listening(place: GpuPlace, environment: Mapping[str, str]) -> Daemon | None:
    """The daemon that the environment names, or that listens where daemons usually do.

    It is adopted, or refused with the reason: another beside it would have the two time-slice the
    GPU.

    Args:
        place: the device.
        environment: of this process.

    Returns:
        None where there is none, so that one can be started.

    Raises:
        MpsError: it is not usable.
    """
    binary = find_binary(environment.get("PATH"))
    named = environment.get(PIPE_DIRECTORY)
    if not named and process_of(USUAL_PIPES) is not None:
        named = str(USUAL_PIPES)
    return adopt(place, Control(pipe_directory=Path(named), binary=binary)) if named else None


def adopt(place: GpuPlace, control: Control) -> Daemon:
    """Use a daemon that somebody else started.

    Raises:
        MpsError: it is another user's, serves other devices, too, or does not answer.
    """
    folder = control.pipe_directory
    process = process_of(folder)
    if process is None:
        control.servers()  # says why: no daemon, or one that hangs
        raise MpsError(
            MpsProblem.NO_DAEMON, f"no process of this machine is the MPS daemon of {folder}"
        )
    uid = process.uids().real
    if uid != os.getuid():
        raise MpsError(
            MpsProblem.FOREIGN_USER,
            f"the MPS daemon of {folder} belongs to user {uid}, and this process to {os.getuid()}",
        )
    scope = process.environ().get(VISIBLE)
    if scope is None or not _is_exactly(scope, place):
        raise MpsError(
            MpsProblem.FOREIGN_SCOPE,
            f"the MPS daemon of {folder} serves {scope or 'all GPUs'}, not {place.uuid} alone",
        )
    return Daemon(
        control=control,
        uuid=place.uuid,
        pid=process.pid,
        ceiling_percent=_ceiling(control),
        is_ours=False,
        visible=scope,
    )


def start(
    place: GpuPlace,
    binary: str,
    environment: Mapping[str, str],
    *,
    static: bool = False,
    root: Path | None = None,
) -> Daemon:
    """Start a daemon for one device, in a folder of its own.

    Args:
        place: the device.
        binary: NVIDIA's control command.
        environment: of this process.
        static: with static partitions of SMs.
        root: where the daemon's folder is made; None: in /tmp.

    Raises:
        MpsError: it does not start.
    """
    # Short, on this node, ours alone: the folder holds a socket, whose path may have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=root or _ROOT))
    pipes, logs = folder / "pipe", folder / "log"
    for each in (pipes, logs):
        each.mkdir(mode=0o700)
    clean = {name: value for name, value in environment.items() if name not in _OF_CLIENTS}
    born = {**clean, PIPE_DIRECTORY: str(pipes), LOG_DIRECTORY: str(logs), VISIBLE: place.uuid}
    control = Control(pipe_directory=pipes, binary=binary)
    try:
        said = run(
            [binary, "-d", *(["-S"] if static else [])],
            environment=born,
            timeout_seconds=_START_SECONDS,
        )
        process = _await(control, said)
        return Daemon(
            control=control,
            uuid=place.uuid,
            pid=process.pid,
            ceiling_percent=_ceiling(control),
            is_ours=True,
            visible=place.uuid,
            folder=folder,
        )
    except BaseException as error:
        _kill(pipes)
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, TimeoutError):
            raise MpsError(
                MpsProblem.HANGS, f"{BINARY} -d did not end in {_START_SECONDS:.0f} s"
            ) from None
        raise


def stop(daemon: Daemon) -> None:
    """End a daemon that was started here: its clients' work, its server, itself, its folder."""
    if not daemon.is_ours:
        return
    with contextlib.suppress(MpsError):
        for server in daemon.control.servers():
            for client in daemon.control.clients(server):
                daemon.control.terminate(server, client)
    with contextlib.suppress(MpsError):
        daemon.control.quit()
        _await_end(daemon.pid)
    _kill(daemon.control.pipe_directory)
    if daemon.folder is not None:
        shutil.rmtree(daemon.folder, ignore_errors=True)


def stop_below(root: Path) -> None:
    """End the daemons whose folders were made in `root`: nobody is left who could by name."""
    for pipes in root.glob(f"{_FOLDER}*/pipe"):
        process = process_of(pipes)
        if process is not None:
            with contextlib.suppress(MpsError):
                Control(pipe_directory=pipes).quit()
                _await_end(process.pid)
            _kill(pipes)


def _await(control: Control, said: str) -> psutil.Process:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        process = process_of(control.pipe_directory)
        if process is not None and (control.pipe_directory / "control").exists():
            control.servers()  # it listens, or this says what it does instead
            return process
        if time.monotonic() > deadline or (process is None and said.strip()):
            reason = " ".join(said.split()) or "it does not listen"
            raise MpsError(MpsProblem.REFUSES, f"the MPS daemon did not start: {reason}")
        time.sleep(_POLL_SECONDS)


def _ceiling(control: Control) -> float:
    return min(
        [control.default_percentage(), *(control.percentage(each) for each in control.servers())]
    )


def process_of(folder: Path) -> psutil.Process | None:
    """The process that is the daemon of a pipe directory, if one of this machine is."""
    try:
        process = psutil.Process(int((folder / f"{BINARY}.pid").read_text()))
        name = Path(process.cmdline()[0]).name
    except (OSError, ValueError, IndexError, psutil.Error):
        return None
    if name != BINARY:
        return None  # the number is another's by now
    try:
        named = process.environ().get(PIPE_DIRECTORY)
    except psutil.Error:
        return process  # another user's: who it is has to be told
    return process if named and Path(named) == folder else None


def _is_exactly(scope: str, place: GpuPlace) -> bool:
    words = [word.strip() for word in scope.split(",")]
    return len(words) == 1 and bool(words[0]) and place.uuid.startswith(words[0])


def _await_end(pid: int) -> None:
    with contextlib.suppress(psutil.Error):
        psutil.Process(pid).wait(_STOP_SECONDS)


def _kill(folder: Path) -> None:
    """The last resort: a daemon of ours that does not end by itself, and its server."""
    process = process_of(folder)
    if process is None:
        return
    with contextlib.suppress(psutil.Error):
        for each in (*process.children(recursive=True), process):
            each.kill()
            each.wait(_STOP_SECONDS)
