"""The owner of a measuring child: feeds it, limits it, and replaces it when it dies."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from tune_farm.tuner.children.spawn import Birth, Child, ChildDiedError, ChildSilentError
from tune_farm.tuner.interfaces import Artifact, RunReport
from tune_farm.tuner.measure.guard import Guard, NoGuard, welcome
from tune_farm.tuner.measure.messages import ChildReady, MeasureDone, MeasureJob, Timing
from tune_farm.tuner.types import Failed, Fault, Outcome, StageSeconds, Task

_START_TIMEOUT_SECONDS = 60.0
#: For a sentinel, whose first call may have to wait for a context and its memory.
_SENTINEL_TIMEOUT_SECONDS = 20.0
#: The child for real devices: TVM's runtime.
REAL_CHILD = "tune_farm.tuner.measure.child"
#: Signals by which an operator ends its process itself; any other end is not its doing.
_FAULT_BY_SIGNAL = {
    signal.SIGSEGV: Fault.ILLEGAL_ACCESS,
    signal.SIGBUS: Fault.ILLEGAL_ACCESS,
    signal.SIGFPE: Fault.RUN_ERROR,
    signal.SIGILL: Fault.RUN_ERROR,
    signal.SIGABRT: Fault.RUN_ERROR,
    signal.SIGTRAP: Fault.RUN_ERROR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Limits of the measuring stage."""

    timing: Timing = Timing()
    baseline_timeout_seconds: float = 120.0
    timeout_seconds: float | None = None  # None: from the baseline
    checks: bool = True  # outputs are compared with the untuned operator's


class ChildRunner:
    """Measures artifacts of one task at a time; implements `interfaces.Runner`."""

    def __init__(
        self,
        *,
        cores: tuple[int, ...],
        scratch: Path,
        options: RunOptions,
        name: str,
        role: str = REAL_CHILD,
        environment: Mapping[str, str] = MappingProxyType({}),
        guard: Guard | None = None,
    ) -> None:
        """Start the child.

        Args:
            cores: that it may use.
            scratch: where reference outputs and its stderr go.
            options: limits.
            name: prefix of all names.
            role: module of the child.
            environment: what it is born with besides; a share, for one.
            guard: what the device asks for when children come and go; None: nothing.
        """
        self._guard = guard or NoGuard()
        self._role = role
        self._environment = environment
        self._cores = cores
        self._scratch = scratch
        self._options = options
        self._name = name
        self._born = 0
        self._task: Task | None = None
        self._baseline_seconds: float | None = None
        self.timing = options.timing  #: how the next `run` calls time; its owner may change it
        self._born_at = 0.0
        self._child: Child | None = self._new_child()

    def select(self, task: Task, baseline_seconds: float | None) -> None:
        """Name the task that the next `run` calls are about.

        Args:
            task: the task.
            baseline_seconds: median time of its untuned build if known; sets the run time-out.
        """
        self._task = task
        self._baseline_seconds = baseline_seconds

    @property
    def has_reference(self) -> bool:
        """Whether the selected task's right outputs are known on this machine."""
        return self._reference().exists()

    def run(
        self, artifact: Artifact, *, incumbent_seconds: float | None, alone: bool = False
    ) -> RunReport:
        """Check, then time one artifact; the untuned one writes the reference instead.

        What another client's fault disturbed is `Failed(CONTENDED)`, whatever came of it here.

        Args:
            artifact: of the selected task.
            incumbent_seconds: the task's best so far.
            alone: while no other client uses the device.
        """
        makes = artifact.candidate.is_untuned and not self.has_reference
        with self._guard.turn(alone=alone, meanwhile=self.rest):
            done = self._ask(self._job(artifact, makes, self.timing, incumbent_seconds))
            clocks = self._guard.clocks()  # at once: an idle device lowers them
        assert done.outcome is not None
        return RunReport(
            outcome=done.outcome,
            cores_used=done.cores_used,
            stage_seconds=StageSeconds(check=done.check_seconds, measure=done.measure_seconds),
            clocks=clocks,
        )

    def make_reference(self, artifact: Artifact) -> Failed | None:
        """Run the untuned artifact once, for its outputs; return why that failed, if it did."""
        with self._guard.turn(alone=False, meanwhile=self.rest):
            outcome = self._ask(self._job(artifact, True, None, None)).outcome
        assert outcome is None or isinstance(outcome, Failed)
        return outcome

    def time_sentinel(
        self, task: Task, library: Path, timing: Timing, *, alone: bool = False
    ) -> Outcome:
        """Time a task that has no inputs, beside the selected one; its output is not looked at."""
        assert all(argument.is_output for argument in task.arguments), task.name
        job = MeasureJob(
            task_id=task.id,
            arguments=task.arguments,
            reduction_length=task.reduction_length,
            library=str(library),
            reference="",
            checks=False,
            makes_reference=False,
            timing=timing,
            incumbent_seconds=None,
        )
        with self._guard.turn(alone=alone, meanwhile=self.rest):
            outcome = self._ask(job).outcome
        assert outcome is not None
        return outcome

    def rest(self) -> None:
        """While there is nothing to do: let go of a device that somebody else broke."""
        if self._child is not None and self._guard.is_broken_since(self._born_at):
            self._end_child()

    def close(self) -> None:
        """End the child; safe to call twice."""
        self._end_child()

    def _end_child(self) -> None:
        if self._child is not None:
            self._guard.part(self._child)
            self._child = None

    def _job(
        self,
        artifact: Artifact,
        makes_reference: bool,
        timing: Timing | None,
        incumbent_seconds: float | None,
    ) -> MeasureJob:
        assert self._task is not None
        return MeasureJob(
            task_id=self._task.id,
            arguments=self._task.arguments,
            reduction_length=self._task.reduction_length,
            library=str(artifact.path),
            reference=str(self._reference()),
            checks=self._options.checks,
            makes_reference=makes_reference,
            timing=timing,
            incumbent_seconds=incumbent_seconds,
        )

    def _reference(self) -> Path:
        assert self._task is not None
        return self._scratch / f"reference-{self._task.id}.npz"

    def _ask(self, job: MeasureJob) -> MeasureDone:
        self.rest()
        if self._child is None:
            self._child = self._new_child()
        started = time.monotonic()
        done, is_lost = self._answer(self._child, job, started)
        theirs = self._guard.disturbed_since(started)
        if theirs is not None:
            # Who broke the device is not told: whatever ran meanwhile is measured again.
            done = replace(done, outcome=Failed(fault=Fault.CONTENDED, detail=theirs))
            if is_lost:
                self._end_child()
        elif is_lost:
            assert isinstance(done.outcome, Failed)
            self._drop_child(done.outcome.detail.partition("\n")[0], breaks=done.is_broken)
        return done

    def _drop_child(self, cause: str, *, breaks: bool) -> None:
        """End a child that is lost; those beside it are disturbed until it is gone."""
        self._guard.disturb(cause, breaks=breaks)
        self._end_child()
        self._guard.disturb(cause, breaks=False)

    def _answer(self, child: Child, job: MeasureJob, started: float) -> tuple[MeasureDone, bool]:
        """What a child answers, and whether it is of no more use."""
        limit = self._timeout_seconds(job)
        try:
            child.send(job)
            answer = child.receive(limit)
        except ChildSilentError:
            detail = f"stopped after {limit:.1f} s"
            outcome: Outcome = Failed(fault=Fault.RUN_TIMEOUT, detail=detail)
        except ChildDiedError as death:
            number = signal.Signals(death.signal_number) if death.signal_number else None
            fault = _FAULT_BY_SIGNAL.get(number, Fault.WORKER_DIED) if number else Fault.WORKER_DIED
            outcome = Failed(fault=fault, detail=death.detail)
        else:
            assert isinstance(answer, MeasureDone)
            return answer, answer.is_broken
        elapsed = time.monotonic() - started
        done = MeasureDone(
            outcome=outcome, cores_used=(), check_seconds=elapsed, measure_seconds=0.0
        )
        return done, True

    def _timeout_seconds(self, job: MeasureJob) -> float:
        if not job.reference:
            return _SENTINEL_TIMEOUT_SECONDS
        if job.makes_reference or self._baseline_seconds is None:
            return self._options.baseline_timeout_seconds
        if self._options.timeout_seconds is not None:
            return self._options.timeout_seconds
        # Check, warm-up and repeats of a candidate three times slower than the baseline.
        calls = 3 + self.timing.repeats
        return 3.0 + 3.0 * calls * self._baseline_seconds

    def _new_child(self) -> Child:
        child = welcome(self._guard, self._birth)
        try:
            ready = child.receive(_START_TIMEOUT_SECONDS)
            assert isinstance(ready, ChildReady)
            if ready.cores != tuple(sorted(self._cores)):
                cause = f"the share is not in force: {ready.cores} != {self._cores}"
                raise ChildDiedError(None, cause)
        except BaseException:
            self._guard.part(child)
            raise
        return child

    def _birth(self) -> Child:
        self._born += 1
        self._born_at = time.monotonic()
        return Child(
            Birth(
                role=self._role,
                name=f"{self._name}-measure-{self._born}",
                cores=self._cores,
                threads=len(self._cores),
                scratch=self._scratch,
                environment={"TVM_USE_RUNTIME_LIB": "1", **self._environment},
            )
        )
