"""Asks processes of their own what a GPU is and what a share of it gives, before work begins."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tune_farm.client.devices.cuda_driver import CudaDevice, same_device
from tune_farm.client.devices.granted import VISIBLE, GpuPlace
from tune_farm.client.share.mps.control import PIPE_DIRECTORY
from tune_farm.client.share.mps.daemon import Daemon
from tune_farm.client.share.mps.errors import MpsError, MpsProblem
from tune_farm.client.share.mps.handshake import Attached
from tune_farm.client.share.mps.leave import leave
from tune_farm.client.share.seat import GpuSeat
from tune_farm.tuner.children.spawn import Birth, Child, ChildDiedError, ChildSilentError

_ANSWER_SECONDS = 15.0
_CHILD = "tune_farm.client.share.mps.handshake"


def without_mps(uuid: str, folder: Path) -> dict[str, str]:
    """The environment of a process that gets all of a device, whatever daemon there is."""
    return {VISIBLE: uuid, PIPE_DIRECTORY: str(folder / "nowhere")}


def ask_whole(place: GpuPlace, folder: Path) -> CudaDevice:
    """What a process is given which MPS knows nothing of.

    Args:
        place: the device.
        folder: for what the process writes.

    Raises:
        MpsError: nothing, or another device.
    """
    with _child(folder, "whole", without_mps(place.uuid, folder)) as child:
        return _given(_told(child, place.uuid), place)


def ask_as_client(daemon: Daemon, place: GpuPlace, folder: Path) -> CudaDevice:
    """What a process is given to which MPS gives as much as it may.

    Args:
        daemon: of the device.
        place: the device.
        folder: for what the process writes.

    Raises:
        MpsError: nothing, or another device.
    """
    born = daemon.environment(daemon.ceiling_percent)
    with _child(folder, "client", born) as child:
        attached = _told(child, place.uuid)
        leave(daemon.control, child.pid)
    return _given(attached, place)


def _given(attached: Attached, place: GpuPlace) -> CudaDevice:
    if attached.error:
        raise MpsError.of_cuda(attached.error_number, f"{place.uuid}: {attached.error}")
    device = attached.devices[0]
    if not same_device(device.uuid, place.uuid):
        raise MpsError(MpsProblem.WRONG_DEVICE, f"CUDA gave {device.uuid} for {place.uuid}")
    return device


def prove(seat: GpuSeat, folder: Path) -> int:
    """Put a process under a share and compare what it gets.

    Args:
        seat: the share.
        folder: for what the process writes.

    Returns:
        The SMs that it gives.

    Raises:
        MpsError: the share is not in force.
    """
    with _child(folder, "share", dict(seat.environment)) as child:
        try:
            sms = seat.admit(_told(child, seat.expected.uuid))
        except MpsError as error:
            if error.problem is not MpsProblem.HANGS:  # it would not hear that either
                seat.dismiss(child.pid)
            raise
        seat.dismiss(child.pid)
        return sms


def _told(child: Child, uuid: str) -> Attached:
    try:
        attached = child.receive(_ANSWER_SECONDS)
    except (ChildDiedError, ChildSilentError) as error:
        raise MpsError(
            MpsProblem.SILENT,
            f"a process that asks the CUDA driver for {uuid} did not answer: "
            f"{str(error).splitlines()[0]}",
        ) from None
    assert isinstance(attached, Attached)
    return attached


@contextmanager
def _child(folder: Path, name: str, environment: Mapping[str, str]) -> Iterator[Child]:
    child = Child(
        Birth(
            role=_CHILD,
            name=name,
            cores=tuple(sorted(os.sched_getaffinity(0))),
            threads=1,
            scratch=folder,
            environment=environment,
        )
    )
    try:
        yield child
    finally:
        child.kill()
