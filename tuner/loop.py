"""The one tuning loop: propose, build, measure, learn. What differs between runs is passed in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tune_farm.tuner.interfaces import (
    Artifact,
    Builder,
    BuildFailure,
    Proposal,
    Runner,
    RunReport,
    Strategy,
    Watch,
)
from tune_farm.tuner.types import (
    UNTUNED_TRACE,
    Candidate,
    Device,
    Failed,
    Fault,
    Record,
    Share,
    StageSeconds,
    Task,
)
from tune_farm.tuner.window import Window

#: Faults that are not the candidate's doing; it is tried once more.
RETRIED = frozenset({Fault.HOST_OVERLOAD, Fault.WORKER_DIED, Fault.LOST, Fault.CONTENDED})
#: Where clients share a device, one's fault is reported to all, and nobody says whose it was.
_SUSPECT = frozenset({Fault.ILLEGAL_ACCESS, Fault.RUN_ERROR})


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """Where candidates are measured, and by whom: what each record is stamped with."""

    device: Device
    share: Share
    client: str
    corunners: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The loop's means: a builder, a runner, and where they stand."""

    builder: Builder
    runner: Runner
    station: Station
    #: Builds share the cores with timings: so many candidates are built, then timed, in turn.
    #: None: builds have cores of their own, and go on while timings run.
    turn: int | None
    should_stop: Callable[[], bool]  # asked between candidates
    #: Others run on the device meanwhile: who seems to have faulted is tried again without them.
    is_shared: bool = False
    #: Measurements that others disturbed are thrown away; None: nobody looks.
    watch: Watch | None = None


def tune(
    task: Task, *, trials: int, strategy: Strategy, bench: Bench, incumbent_seconds: float | None
) -> Iterator[Record]:
    """Tune one task for up to `trials` candidates; yields each record as soon as it is known.

    The strategy has learned every yielded record when the iterator ends, also when it ends early.

    Args:
        task: the task.
        trials: candidates to hand to the builder at most.
        strategy: where they come from.
        bench: what builds and measures them.
        incumbent_seconds: the task's best so far, seconds.
    """
    started = time.monotonic()
    proposed = strategy.propose(trials)
    search_seconds = (time.monotonic() - started) / max(1, len(proposed))
    learned: list[Record] = []
    try:
        for record in measure(proposed, bench=bench, incumbent_seconds=incumbent_seconds):
            stages = replace(record.stage_seconds, search=search_seconds)
            learned.append(replace(record, stage_seconds=stages))
            yield learned[-1]
    finally:
        strategy.tell(learned)


def untuned(task: Task) -> Candidate:
    """The task's baseline: as the compiler lowers it by default."""
    return Candidate(task_id=task.id, trace_json=UNTUNED_TRACE)


def measure(
    proposals: Sequence[Proposal],
    *,
    bench: Bench,
    incumbent_seconds: float | None,
    first_attempt: int = 0,
) -> Iterator[Record]:
    """Build and measure candidates of one task; those that a fault of ours hit are tried again."""
    again = {proposal.candidate: proposal for proposal in proposals}
    tried_again = RETRIED | _SUSPECT if bench.is_shared else RETRIED
    for attempt in (first_attempt, first_attempt + 1):
        retried = {}
        alone = bench.is_shared and attempt > first_attempt
        for record in _attempt(again, attempt, bench, incumbent_seconds, alone):
            if isinstance(record.outcome, Failed) and record.outcome.fault in tried_again:
                retried[record.candidate] = again[record.candidate]
            yield record
        again = retried


def _attempt(
    proposals: Mapping[Candidate, Proposal],
    attempt: int,
    bench: Bench,
    incumbent_seconds: float | None,
    alone: bool,
) -> Iterator[Record]:
    window = Window(bench.watch, alone=alone, should_stop=bench.should_stop)
    try:
        for item in built(tuple(proposals), bench):
            if bench.should_stop():
                break
            if isinstance(item, Artifact):
                yield from window.enter()
            report = _report(item, bench, incumbent_seconds, alone)
            record = record_of(item, proposals[item.candidate], attempt, bench.station, report)
            if record.seconds is not None:
                incumbent_seconds = min(record.seconds, incumbent_seconds or record.seconds)
            yield from window.add(record)
    except Exception:
        yield from window.close()  # no work can go on here; what was measured is not lost
        raise
    yield from window.close()


def _report(
    item: Artifact | BuildFailure, bench: Bench, incumbent_seconds: float | None, alone: bool
) -> RunReport:
    if isinstance(item, BuildFailure):
        return RunReport(outcome=item.failure, cores_used=(), stage_seconds=StageSeconds())
    report = bench.runner.run(item, incumbent_seconds=incumbent_seconds, alone=alone)
    item.path.unlink(missing_ok=True)
    return report


def built(candidates: Sequence[Candidate], bench: Bench) -> Iterator[Artifact | BuildFailure]:
    """Build candidates, so many at a time as the bench takes turns with."""
    if bench.turn is None:
        yield from bench.builder.build(candidates)
        return
    for start in range(0, len(candidates), bench.turn):
        yield from list(bench.builder.build(candidates[start : start + bench.turn]))


def record_of(
    item: Artifact | BuildFailure,
    proposal: Proposal,
    attempt: int,
    station: Station,
    report: RunReport,
) -> Record:
    """What is known of a candidate now, stamped with where that was."""
    return Record(
        candidate=item.candidate,
        purpose=proposal.purpose,
        attempt=attempt,
        outcome=report.outcome,
        device=station.device,
        share=station.share,
        client=station.client,
        corunners=station.corunners,
        cores_used=report.cores_used,
        stage_seconds=replace(report.stage_seconds, build=item.build_seconds),
        predicted_seconds=proposal.predicted_seconds,
        time=time.time(),
        clocks=report.clocks,
    )
