"""Puts a client under half of a GPU and has it proven, by an MPS daemon found or started."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tune_farm.client.devices.granted import VISIBLE, GpuPlace
from tune_farm.client.doctor.check import Check, Status
from tune_farm.client.share.mps.control import PIPE_DIRECTORY
from tune_farm.client.share.mps.daemon import adopt_or_start, stop
from tune_farm.client.share.mps.errors import MpsError
from tune_farm.client.share.mps.guard import ShareGuard
from tune_farm.client.share.mps.handshake import Attached, Expected, verify
from tune_farm.tuner.children.spawn import Birth, Child, ChildDiedError, ChildSilentError

_PERCENT = 50
_ANSWER_SECONDS = 15.0
_CHILD = "tune_farm.client.share.mps.handshake"


def try_share(place: GpuPlace, environment: Mapping[str, str]) -> Check:
    """Prove a share of one device; whatever was started for it is ended.

    Args:
        place: the device.
        environment: of this process: where an MPS daemon is that was set up for it.
    """
    name = f"share of {place.uuid[:12]}"
    with tempfile.TemporaryDirectory(prefix="tf-") as folder:
        try:
            detail = _prove(place, environment, Path(folder))
        except MpsError as error:
            return Check(name=name, status=Status.FAILED, detail=error.cause, remedy=error.remedy)
        except (ChildDiedError, ChildSilentError) as error:
            detail = str(error).splitlines()[0]
            return Check(
                name=name,
                status=Status.FAILED,
                detail=f"a process that asks the CUDA driver did not answer: {detail}",
                remedy="look at 'nvidia-smi' and the kernel's log for Xid errors",
            )
    return Check(name=name, status=Status.OK, detail=detail)


def _prove(place: GpuPlace, environment: Mapping[str, str], folder: Path) -> str:
    total = _whole(place, folder)
    daemon = adopt_or_start(place, environment)
    try:
        percent = min(float(_PERCENT), daemon.ceiling_percent)
        expected = Expected(uuid=place.uuid, total=total, percent=percent)
        guard = ShareGuard(daemon=daemon, expected=expected)
        with _child(folder, "share", daemon.environment(percent)) as child:
            try:
                sms = verify(_told(child), expected, daemon.control)
            finally:
                guard.part(child)
    finally:
        stop(daemon)
    whose = "a daemon of its own" if daemon.is_ours else f"{daemon.control.pipe_directory}"
    proof = f"{percent:g}% gives {sms} of {total} SMs, proven by a client of {whose}"
    if percent < _PERCENT:
        return f"under a cap of {percent:g}% that was set for this job {proof}"
    return proof


def _whole(place: GpuPlace, folder: Path) -> int:
    """The SMs that a process gets which MPS knows nothing of."""
    nowhere = {VISIBLE: place.uuid, PIPE_DIRECTORY: str(folder / "nowhere")}
    with _child(folder, "whole", nowhere) as child:
        attached = _told(child)
    if attached.error:
        raise MpsError.of_cuda(attached.error_number, f"{place.uuid}: {attached.error}")
    return attached.devices[0].sm_count


def _told(child: Child) -> Attached:
    attached = child.receive(_ANSWER_SECONDS)
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
