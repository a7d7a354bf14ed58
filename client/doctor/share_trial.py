"""Tries a GPU out: a client under half of it, by a daemon found or started; TVM on all of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from tune_farm.client.devices.granted import GpuPlace
from tune_farm.client.doctor.check import Check, Status
from tune_farm.client.share.mps.daemon import adopt_or_start, stop
from tune_farm.client.share.mps.errors import MpsError
from tune_farm.client.share.mps.handshake import Expected
from tune_farm.client.share.prove import ask_whole, prove, without_mps
from tune_farm.client.share.runtime_probe import require_runtime
from tune_farm.client.share.seat import GpuSeat
from tune_farm.tuner.errors import EnvironmentUnusableError

_PERCENT = 50


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
    return Check(name=name, status=Status.OK, detail=detail)


def try_runtime(place: GpuPlace) -> Check:
    """Have TVM find one device, undivided, in a process of its own."""
    name = f"TVM on {place.uuid[:12]}"
    with tempfile.TemporaryDirectory(prefix="tf-") as folder:
        try:
            whole = ask_whole(place, Path(folder))
            expected = Expected(uuid=place.uuid, total=whole.sm_count, percent=100)
            environment = tuple(without_mps(place.uuid, Path(folder)).items())
            seat = GpuSeat(expected=expected, environment=environment, control=None)
            require_runtime(seat, Path(folder))
        except EnvironmentUnusableError as error:
            return Check(name=name, status=Status.FAILED, detail=error.cause, remedy=error.remedy)
    return Check(name=name, status=Status.OK, detail=f"its runtime finds {whole.name}")


def _prove(place: GpuPlace, environment: Mapping[str, str], folder: Path) -> str:
    total = ask_whole(place, folder).sm_count
    daemon = adopt_or_start(place, environment)
    try:
        percent = min(float(_PERCENT), daemon.ceiling_percent)
        seat = GpuSeat(
            expected=Expected(uuid=place.uuid, total=total, percent=percent),
            environment=tuple(daemon.environment(percent).items()),
            control=daemon.control,
        )
        sms = prove(seat, folder)
    finally:
        stop(daemon)
    whose = "a daemon of its own" if daemon.is_ours else f"{daemon.control.pipe_directory}"
    proof = f"{percent:g}% gives {sms} of {total} SMs, proven by a client of {whose}"
    if percent < _PERCENT:
        return f"under a cap of {percent:g}% that was set for this job {proof}"
    return proof
