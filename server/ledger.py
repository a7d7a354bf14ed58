"""What the farm knows of each task: trials, the best so far, and whether it goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tune_farm.server.budget import TaskProgress
from tune_farm.server.variants import Standing
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.records.query import rank
from tune_farm.tuner.types import Candidate, Failed, Measured, Purpose, Record, Task

#: A task that failed this many candidates and measured none is given up.
_HOPELESS_AFTER = 16
#: Clients lost at work on a task, after which it is given up: it may be what kills them.
_DEADLY_AFTER = 2
#: Finalists of a task, and how far behind the best they may be.
_FINALISTS = 3
_FINALIST_RATIO = 1.1
#: A baseline slower than the best by more than this needs no second look.
_BASELINE_RATIO = 2.0


@dataclass(slots=True)
class TaskEntry:
    """One task's state. Written by `Ledger` alone."""

    task: Task
    given: int = 0  #: trials in orders that are out
    trials: int = 0  #: candidates whose outcome is known, baselines and finals left out
    measured: int = 0  #: of these, measured
    baseline: Record | None = None  #: the measured untuned operator
    search: dict[str, Record] = field(default_factory=dict)  #: measured candidates by id
    finals: dict[str, Record] = field(default_factory=dict)  #: measured again, by candidate id
    history: list[float] = field(default_factory=list)  #: best seconds after each trial
    exhausted: bool = False
    failure: str | None = None  #: why the task was given up
    first_fault: str | None = None  #: what its first failing candidate died of
    finals_tried: bool = False  #: its finalists were handed out in this session
    deaths: int = 0  #: clients lost while they worked on it

    @property
    def best(self) -> Record | None:
        """The best measured candidate; finals, once there are any, rank alone."""
        pool = self.finals if self._has_finalist() else self.search
        tuned = [record for record in pool.values() if not record.candidate.is_untuned]
        return min(tuned, key=rank, default=None)

    @property
    def baseline_record(self) -> Record | None:
        """The untuned operator's most trusted measurement."""
        return next((r for r in self.finals.values() if r.candidate.is_untuned), self.baseline)

    @property
    def gained(self) -> bool:
        """Whether the best candidate beats the baseline."""
        best, baseline = self.best, self.baseline_record
        return best is not None and (baseline is None or _seconds(best) < _seconds(baseline))

    @property
    def progress(self) -> TaskProgress:
        """What the budget policy sees."""
        return TaskProgress(
            task_id=self.task.id,
            weight=self.task.weight,
            baseline_seconds=self.baseline.seconds if self.baseline else None,
            best_seconds=min((r.seconds for r in self.search.values() if r.seconds), default=None),
            history=tuple(self.history),
            trials=self.trials + self.given,
            exhausted=self.exhausted,
            failed=self.failure is not None,
        )

    @property
    def standing(self) -> Standing:
        """What the choice of variants sees: the untuned build counts where it is the faster."""
        known = [each.seconds for each in (self.best, self.baseline_record) if each is not None]
        return Standing(
            seconds=min((seconds for seconds in known if seconds is not None), default=None),
            trials=self.trials,
            is_open=self.progress.is_open,
        )

    def finalists(self) -> tuple[Candidate, ...]:
        """Candidates to measure again alone: near the best, and the baseline where it is close."""
        ranked = sorted(self.search.values(), key=rank)[:_FINALISTS]
        if not ranked:
            return ()
        best_seconds = _seconds(ranked[0])
        chosen = [r.candidate for r in ranked if _seconds(r) <= _FINALIST_RATIO * best_seconds]
        if self.baseline and _seconds(self.baseline) <= _BASELINE_RATIO * best_seconds:
            chosen.append(untuned(self.task))
        return tuple(c for c in chosen if c.id not in self.finals)

    def _has_finalist(self) -> bool:
        return any(not record.candidate.is_untuned for record in self.finals.values())


class Ledger:
    """All tasks of a run. Written by `FarmState` alone."""

    def __init__(self, tasks: Iterable[Task], records: Iterable[Record]) -> None:
        self.entries = {task.id: TaskEntry(task) for task in tasks}
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        """Take in one stored record; records of tasks that are not selected are left aside."""
        entry = self.entries.get(record.candidate.task_id)
        if entry is None:
            return
        outcome = record.outcome
        if isinstance(outcome, Failed) and entry.first_fault is None:
            entry.first_fault = f"{outcome.fault.value}: {outcome.detail.splitlines()[0]}"
        if record.purpose is Purpose.BASELINE:
            if isinstance(outcome, Measured):
                entry.baseline = record
                entry.history.append(outcome.median_seconds)
        elif record.purpose is Purpose.FINAL:
            if isinstance(outcome, Measured):
                entry.finals[record.candidate.id] = record
        else:
            self._add_trial(entry, record)

    def give(self, task_id: str, trials: int) -> None:
        """Note that an order for `trials` candidates went out."""
        self.entries[task_id].given += trials

    def settle(self, task_id: str, trials: int, *, proposed: int, cut_short: bool) -> None:
        """Note that an order for `trials` candidates is over.

        Args:
            task_id: its task.
            trials: what was given.
            proposed: candidates that the strategy came up with.
            cut_short: the order was stopped, so few candidates mean nothing.
        """
        entry = self.entries[task_id]
        entry.given -= trials
        if trials and proposed == 0 and not cut_short:
            entry.exhausted = True
        if entry.trials >= _HOPELESS_AFTER and entry.measured == 0:
            entry.failure = f"all {entry.trials} candidates failed; first {entry.first_fault}"

    def died(self, task_id: str) -> None:
        """Note that a client was lost at work on the task."""
        entry = self.entries[task_id]
        entry.deaths += 1
        entry.finals_tried = False
        if entry.deaths >= _DEADLY_AFTER:
            entry.failure = f"{entry.deaths} clients were lost while they tuned it"

    def give_up(self, task_id: str, reason: str) -> None:
        """Note that the task can't be tuned, and why."""
        self.entries[task_id].failure = reason

    def _add_trial(self, entry: TaskEntry, record: Record) -> None:
        entry.trials += record.attempt == 0
        seconds = record.seconds
        if seconds is not None:
            entry.measured += 1
            entry.search[record.candidate.id] = record
        known = [
            s for s in (entry.history[-1] if entry.history else None, seconds) if s is not None
        ]
        if known:
            entry.history.append(min(known))


def _seconds(record: Record) -> float:
    assert record.seconds is not None, record.key
    return record.seconds
