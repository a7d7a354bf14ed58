"""What `doctor` looks at on a machine with GPUs: driver, MIG, compute mode, neighbors, MPS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tune_farm.client.devices.clocks import throttles
from tune_farm.client.devices.gpus import Gpu, list_gpus
from tune_farm.client.devices.granted import granted
from tune_farm.client.devices.health import Health, read_health
from tune_farm.client.doctor.check import Check, Status
from tune_farm.client.doctor.share_trial import try_runtime, try_share
from tune_farm.client.share.mps.errors import MpsError, MpsProblem
from tune_farm.client.share.mps.survey import UTILIZATION, look

#: `nvmlComputeMode_t`: no CUDA context can be made.
_PROHIBITED = 2


def gpu_checks(environment: Mapping[str, str], *, full: bool) -> Iterator[Check]:
    """Yield each check as it ends.

    Args:
        environment: of the process: what was granted, and where MPS is.
        full: also put a client under a share of each device that was granted.
    """
    listing = list_gpus()
    if not listing.gpus:
        detail = f"{listing.reason}: tuning for the CPU only"
        yield Check(name="CUDA driver", status=Status.NOTE, detail=detail)
        return
    names = ", ".join(gpu.name for gpu in listing.gpus)
    detail = f"{listing.gpus[0].driver} with {names}"
    yield Check(name="CUDA driver", status=Status.OK, detail=detail)
    grant = granted(listing.gpus, environment)
    if not grant.places:
        yield Check(
            name="GPUs granted",
            status=Status.NOTE,
            detail=f"none of them can be used here{f' ({grant.source})' if grant.source else ''}",
            remedy="ask the scheduler for one, or unset the variable",
        )
    for gpu in listing.gpus:
        yield from _of_gpu(gpu)
    mps = _mps(environment)
    yield mps
    if full:
        for place in grant.places:
            yield try_share(place, environment)
            yield try_runtime(place, environment)
        if grant.places:
            yield Check(name="GPU utilization", status=Status.NOTE, detail=UTILIZATION)


def _of_gpu(gpu: Gpu) -> Iterator[Check]:
    name = f"cuda:{gpu.index}"
    if gpu.mig_enabled and not gpu.instances:
        yield Check(
            name=f"{name} MIG",
            status=Status.NOTE,
            detail="MIG is on and no instance is created: CUDA has no device there",
            remedy="nvidia-smi mig -cgi PROFILE -C, or nvidia-smi -mig 0",
        )
    if gpu.compute_mode == _PROHIBITED:
        yield Check(
            name=f"{name} mode",
            status=Status.NOTE,
            detail="the compute mode is PROHIBITED: nothing can run there",
            remedy="as root: nvidia-smi -c DEFAULT",
        )
    health = read_health(gpu.uuid)
    if health is not None:
        yield from _of_health(name, health)


def _of_health(name: str, health: Health) -> Iterator[Check]:
    """What disturbs timings there now, or makes outputs wrong."""
    if health.neighbours:
        shown = ", ".join(map(str, health.neighbours[:5]))
        yield Check(
            name=f"{name} processes",
            status=Status.NOTE,
            detail=f"{len(health.neighbours)} of others compute there: {shown}",
            remedy="end them, or wait: timings are disturbed by what they do",
        )
    if held := throttles(health.clocks):
        yield Check(
            name=f"{name} clocks",
            status=Status.NOTE,
            detail=f"held down by {' and '.join(held)}{_clock(health)}",
            remedy="timings drift with them: cool it, raise its power limit (nvidia-smi -pl), or "
            "lock lower clocks (nvidia-smi -lgc), both as root",
        )
    if health.ecc_uncorrected:
        yield Check(
            name=f"{name} ECC",
            status=Status.NOTE,
            detail=f"{health.ecc_uncorrected} uncorrectable memory errors since the driver was "
            "loaded",
            remedy="outputs may be wrong: as root nvidia-smi --gpu-reset; if they come again, have "
            "it replaced",
        )


def _clock(health: Health) -> str:
    now, most = health.clocks.sm_hertz, health.most_sm_hertz
    return "" if now is None or most is None else f": {now / 1e6:.0f} of {most / 1e6:.0f} MHz"


def _mps(environment: Mapping[str, str]) -> Check:
    try:
        detail = look(environment)
    except MpsError as error:
        # Nobody needs a daemon that does not run: one is started when a share is asked for.
        is_missing = error.problem in (MpsProblem.NO_DAEMON, MpsProblem.NO_BINARY)
        status = Status.NOTE if is_missing else Status.FAILED
        remedy = "" if error.problem is MpsProblem.NO_DAEMON else error.remedy
        return Check(name="MPS", status=status, detail=error.cause, remedy=remedy)
    return Check(name="MPS", status=Status.OK, detail=detail)
