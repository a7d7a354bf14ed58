"""Tries a GPU out: a client under half of it, by a daemon found or started; TVM on all of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from tune_farm.client.devices.granted import GpuPlace
from tune_farm.client.doctor.check import Check, Status
from tune_farm.client.share.held import Whole, find_whole
from tune_farm.client.share.mps.daemon import Daemon, adopt_or_start, stop
from tune_farm.client.share.mps.errors import MpsError
from tune_farm.client.share.mps.handshake import Expected
from tune_farm.client.share.prove import prove, without_mps
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


def try_runtime(place: GpuPlace, environment: Mapping[str, str]) -> Check:
    """Have TVM find one device, as much of it as can be had, in a process of its own.

    Args:
        place: the device.
        environment: of this process: where an MPS daemon is that was set up for it.
    """
    name = f"TVM on {place.uuid[:12]}"
    with tempfile.TemporaryDirectory(prefix="tf-") as folder:
        try:
            whole = find_whole(place, environment, Path(folder))
            require_runtime(_most_of(place, whole, Path(folder)), Path(folder))
        except EnvironmentUnusableError as error:
            return Check(name=name, status=Status.FAILED, detail=error.cause, remedy=error.remedy)
    return Check(name=name, status=Status.OK, detail=f"its runtime finds {whole.device.name}")


def _most_of(place: GpuPlace, whole: Whole, folder: Path) -> GpuSeat:
    if whole.holder is not None:
        return _seat(place, whole.device.sm_count, whole.holder, whole.holder.ceiling_percent)
    return GpuSeat(
        expected=Expected(uuid=place.uuid, total=whole.device.sm_count, percent=100),
        environment=tuple(without_mps(place.uuid, folder).items()),
        control=None,
    )


def _seat(place: GpuPlace, total: int, daemon: Daemon, percent: float) -> GpuSeat:
    return GpuSeat(
        expected=Expected(uuid=place.uuid, total=total, percent=percent),
        environment=tuple(daemon.environment(percent).items()),
        control=daemon.control,
    )


def _prove(place: GpuPlace, environment: Mapping[str, str], folder: Path) -> str:
    whole = find_whole(place, environment, folder)
    total = whole.device.sm_count
    daemon = whole.holder or adopt_or_start(place, environment)
    try:
        percent = min(float(_PERCENT), daemon.ceiling_percent)
        sms = prove(_seat(place, total, daemon, percent), folder)
    finally:
        stop(daemon)
    whose = "a daemon of its own" if daemon.is_ours else f"{daemon.control.pipe_directory}"
    proof = f"{percent:g}% gives {sms} of {total} SMs, proven by a client of {whose}"
    if percent < _PERCENT:
        return f"under a cap of {percent:g}% that was set for this job {proof}"
    return proof
