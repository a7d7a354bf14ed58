"""Conducts the check: part after part, each with a time limit, none able to end the others."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from benchmarks.gpu.lab import Earlier, Findings, Lab, LateError, SkippedError
from benchmarks.gpu.parts import (
    attachment,
    blast,
    driver,
    elsewhere,
    neighbors,
    sentinels,
    sms,
    tvm_runtime,
    waves,
)
from tune_farm.client.devices.cuda_driver import CudaError
from tune_farm.client.share.mps.errors import MpsError
from tune_farm.tuner.children.spawn import ChildDiedError

#: A part that has less than this is not begun.
_LEAST_SECONDS = 5.0

State: TypeAlias = Literal["done", "skipped", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One question."""

    name: str
    asks: str
    seconds: float  # at most
    run: Callable[[Lab, Earlier], Findings]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a part."""

    part: Part
    state: State
    seconds: float
    findings: Findings | None = None
    reason: str = ""  # it is not done


#: The most telling first: what there is no time for at the end is skipped.
PARTS = (
    Part(name="driver", asks="does CUDA work here", seconds=30, run=driver.run),
    Part(
        name="attachment",
        asks="does the handshake tell a client from one that missed MPS",
        seconds=40,
        run=attachment.run,
    ),
    Part(name="sms", asks="which SMs a percentage gives", seconds=60, run=sms.run),
    Part(name="sentinels", asks="what drifts on its own", seconds=45, run=sentinels.run),
    Part(name="waves", asks="is the law of waves true", seconds=75, run=waves.run),
    Part(name="elsewhere", asks="is tuning under a share worth it", seconds=60, run=elsewhere.run),
    Part(name="blast", asks="whom a fault hits", seconds=60, run=blast.run),
    Part(name="neighbors", asks="what several clients get done", seconds=60, run=neighbors.run),
    Part(
        name="static",
        asks="the law under static partitions",
        seconds=45,
        run=waves.run_static,
    ),
    Part(name="tvm", asks="do shipped libraries run", seconds=40, run=tvm_runtime.run),
    Part(name="drift", asks="the sentinels again", seconds=20, run=sentinels.run),
)


def conduct(lab: Lab, parts: Sequence[Part], seconds: float) -> Iterator[Outcome]:
    """Run parts in order; what came of each, as it ends.

    Args:
        lab: the GPU.
        parts: what to ask.
        seconds: that all may take together.
    """
    end = lab.now() + seconds
    earlier: dict[str, Findings] = {}
    for part in parts:
        outcome = _run(lab, part, earlier, end)
        if outcome.findings is not None:
            earlier[part.name] = outcome.findings
        yield outcome


def _run(lab: Lab, part: Part, earlier: Earlier, end: float) -> Outcome:
    begin = lab.now()
    left = min(part.seconds, end - begin)
    if left < _LEAST_SECONDS:
        return Outcome(part=part, state="skipped", seconds=0.0, reason="no time was left")
    lab.limit(left)
    state: State = "failed"
    try:
        findings = part.run(lab, earlier)
    except SkippedError as error:
        state, reason = "skipped", str(error)
    except LateError as error:
        reason = f"not done in {left:.0f} s: {error}"
    except MpsError as error:
        reason = error.cause
    except (ChildDiedError, CudaError) as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 - the top of a part: the others still count
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/')[2]}:{where.lineno}"
        reason = f"{type(error).__name__} at {place}: {error}"
    else:
        return Outcome(part=part, state="done", seconds=lab.now() - begin, findings=findings)
    return Outcome(part=part, state=state, seconds=lab.now() - begin, reason=reason)
