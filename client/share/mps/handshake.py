"""Proves that a process runs under its share, before anything is timed in it.

Where the daemon can't be reached, CUDA gives a process the whole GPU and says nothing. So the
process itself tells what it was given, and its owner compares.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tune_farm.client.devices.cuda_driver import CudaDevice, CudaDriver, CudaError, same_device
from tune_farm.client.share.mps.control import Control
from tune_farm.client.share.mps.errors import MpsError, MpsProblem

_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """What a process was given, as it sees it itself."""

    pid: int
    devices: tuple[CudaDevice, ...]
    error_number: int = 0  # CUresult; nothing was given where it is not 0
    error: str = ""
    visible: str | None = None  # CUDA_VISIBLE_DEVICES as it found it


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a process was meant to get."""

    uuid: str  # of the GPU or MIG instance
    total: int  # SMs of all of it
    percent: float  # of them
    sms: int | None = None  # exactly so many, by a static partition; None: by percentage


def attach() -> Attached:
    """Make this process a client, and say what it got."""
    visible = os.environ.get(_VISIBLE)
    try:
        driver = CudaDriver()
        driver.attach()
        devices = driver.devices()
    except CudaError as error:
        return Attached(
            pid=os.getpid(),
            devices=(),
            error_number=error.number,
            error=str(error),
            visible=visible,
        )
    return Attached(pid=os.getpid(), devices=devices, visible=visible)


def serve(connection: Connection[Any, Any]) -> None:
    """As a child: attach, tell, and stay attached until the channel closes."""
    connection.send(attach())
    connection.recv()


def verify(attached: Attached, expected: Expected, control: Control) -> int:
    """Compare what a process was given with what it was meant to get.

    Args:
        attached: what it says; it must still run.
        expected: what it was meant to get.
        control: the daemon that it should be a client of.

    Returns:
        The SMs that it may use.

    Raises:
        MpsError: the share is not in force.
    """
    # Not above: a child that attaches imports this module, and needs nothing of that one.
    from tune_farm.client.share.mps.diagnosis import refused, unseen

    if attached.error:
        raise refused(
            attached.error_number,
            attached.error,
            visible=attached.visible,
            uuid=expected.uuid,
            control=control,
        )
    (device, *others) = attached.devices
    if others or not same_device(device.uuid, expected.uuid):
        found = ", ".join(each.uuid for each in attached.devices)
        where = f"the MPS daemon in {control.pipe_directory}"
        why = unseen(attached.visible, expected.uuid, where)
        raise MpsError(
            MpsProblem.WRONG_DEVICE, f"the client got {found} instead of {expected.uuid}: {why}"
        )
    most = expected.sms or math.ceil(expected.percent / 100 * expected.total)
    visible = device.sm_count
    if not 0 < visible <= most or (expected.percent < 100 and visible >= expected.total):
        raise MpsError(
            MpsProblem.NOT_IN_FORCE,
            f"the client may use {visible} of {expected.total} SMs, not the "
            f"{most} of {expected.percent:g}%",
        )
    server = _server_of(attached.pid, control)
    ceiling = control.percentage(server)
    if expected.sms is None and ceiling < expected.percent:
        raise MpsError(
            MpsProblem.CAPPED,
            f"you run under a cap of {ceiling:g}% ({visible} of {expected.total} SMs) that the MPS "
            f"daemon in {control.pipe_directory} sets, not at the {expected.percent:g}% asked for",
        )
    return visible


def _server_of(pid: int, control: Control) -> int:
    """The server that a process is a client of."""
    servers = control.servers()
    names = pids_of(pid)
    for server in servers:
        if names & set(control.clients(server)):
            status = control.status(server)
            if status != "ACTIVE":
                raise MpsError(MpsProblem.FAULT, f"the MPS server {server} is in state {status}")
            return server
    raise MpsError(
        MpsProblem.NOT_ATTACHED,
        f"process {pid} is no client of the MPS daemon in {control.pipe_directory}: it would run "
        "on the whole GPU",
    )


def pids_of(pid: int, root: Path = Path("/proc")) -> frozenset[int]:
    """A process's numbers in all pid namespaces that it is in: a daemon may count in another."""
    try:
        status = (root / str(pid) / "status").read_text()
    except OSError:
        return frozenset({pid})
    for line in status.splitlines():
        name, _, numbers = line.partition(":")
        if name == "NSpid":
            return frozenset({pid, *(int(number) for number in numbers.split())})
    return frozenset({pid})
