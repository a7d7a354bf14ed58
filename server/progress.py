"""Pictures of a running or ended search: for the screen, and for the summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tune_farm.server.ledger import TaskEntry
from tune_farm.server.report.summary import TaskState, TaskSummary, TrialCounts
from tune_farm.server.report.view import ClientRow, Progress, TaskRow
from tune_farm.server.search import Search
from tune_farm.server.state import FarmState, Phase
from tune_farm.server.variants import names_of
from tune_farm.tuner.records.query import TRIAL_PURPOSES, count_outcomes
from tune_farm.tuner.types import Measured, Record

#: Trials that a pace is taken from at least and at most.
_LEAST = 4
_LATEST = 48
_PHASES = {
    Phase.SEARCH: "search",
    Phase.DRAIN: "search",
    Phase.FINAL: "finals",
    Phase.COMPARE: "end-to-end check",
    Phase.DONE: "end",
}


def picture_of(search: Search) -> Progress:
    """What the screen shows of a search now."""
    state = search.state
    counts = trial_counts(search)
    at_work = {order.task_id for order in state.assignments.values() if order is not None}
    causes = search.failures.causes
    return Progress(
        phase=_PHASES[state.phase] if state.assignments else "set-up",
        elapsed_seconds=search.spent_seconds,
        budget_seconds=search.budget_seconds,
        measured=counts.measured,
        pruned=counts.pruned_static + counts.pruned_predicted,
        failed=counts.failed,
        tasks=tuple(
            TaskRow(
                name=entry.task.name,
                weight=entry.task.weight,
                trials=entry.trials,
                baseline_seconds=seconds_of(entry)[0],
                best_seconds=seconds_of(entry)[1],
                state=_doing(entry, entry.task.id in at_work, entry.task.id in state.behind),
            )
            for entry in state.ledger.entries.values()
        ),
        clients=tuple(
            ClientRow(name=client, doing=_client_doing(state, client))
            for client in sorted(state.assignments)
        ),
        budget_trials=state.trials_allowed,
        repeated=sum(each.attempt > 0 for each in _trials(search.journal.records)),
        pace_seconds=pace_of(search.journal.records[search.earlier :]),
        last_failure=f"{causes[-1].fault}: {causes[-1].first_line}" if causes else None,
        dashboard_url=search.farm.dashboard_url,
    )


def pace_of(records: Sequence[Record]) -> float | None:
    """Wall seconds between outcomes of trials, over the latest ones of a session, any client's.

    Over all of them the first would count for ever: workers warm up, and baselines, the slowest
    schedules of all, come with them.
    """
    times = [each.time for each in _trials(records)][-_LATEST:]
    if len(times) < _LEAST:
        return None
    return (max(times) - min(times)) / (len(times) - 1)


def _trials(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record.purpose in TRIAL_PURPOSES]


def trial_counts(search: Search) -> TrialCounts:
    """What became of the candidates, all sessions of the run together."""
    counts = count_outcomes(search.journal.records)
    return TrialCounts(
        measured=counts.measured,
        pruned_static=search.pruned.over_limit,
        pruned_predicted=search.pruned.predicted_slow,
        failed=tuple((fault.value, count) for fault, count in counts.failed),
    )


def task_summaries(state: FarmState, *, interrupted: bool) -> tuple[TaskSummary, ...]:
    """How each task ended, those of variants that lost included."""
    unused, variants = state.unused, names_of(state.alternatives)
    summaries = []
    for task_id, entry in state.ledger.entries.items():
        summary = replace(_task_summary(entry, interrupted), variant=variants.get(task_id, ""))
        if task_id in unused:
            summary = replace(summary, state=TaskState.UNUSED, reason=unused[task_id])
        summaries.append(summary)
    return tuple(summaries)


def seconds_of(entry: TaskEntry) -> tuple[float | None, float | None]:
    """A task's baseline and best seconds, as trusted now."""
    baseline, best = entry.baseline_record, entry.best
    return (baseline.seconds if baseline else None, best.seconds if best else None)


def _task_summary(entry: TaskEntry, interrupted: bool) -> TaskSummary:
    baseline, best = seconds_of(entry)
    state, reason = _end_of(entry, interrupted)
    outcome = entry.best.outcome if entry.best else None
    repeats = outcome.repeats_seconds if isinstance(outcome, Measured) else ()
    return TaskSummary(
        id=entry.task.id,
        name=entry.task.name,
        weight=entry.task.weight,
        baseline_seconds=baseline,
        best_seconds=best,
        spread_seconds=max(repeats) - min(repeats) if len(repeats) > 1 else None,
        trials=entry.trials,
        state=state,
        reason=reason,
    )


def _end_of(entry: TaskEntry, interrupted: bool) -> tuple[TaskState, str]:
    if entry.gained:
        return TaskState.TUNED, ""
    if entry.failure is not None:
        return TaskState.FAILED, entry.failure.splitlines()[0]
    if entry.search:
        return TaskState.BASELINE, "no candidate was faster than the untuned operator"
    if interrupted:
        return TaskState.PENDING, "interrupted before it was tuned"
    if entry.trials:
        return TaskState.FAILED, f"no candidate could be measured; first {entry.first_fault}"
    if entry.exhausted:
        return TaskState.BASELINE, "its design space holds no schedule within the limits"
    return TaskState.BASELINE, "the budget did not reach it"


def _doing(entry: TaskEntry, at_work: bool, is_behind: bool) -> str:
    if at_work:
        return "at work"
    if entry.failure is not None:
        return "failed"
    if is_behind:
        return "behind"
    if entry.exhausted:
        return "searched out"
    return "waiting" if entry.trials == 0 else "open"


def _client_doing(state: FarmState, client: str) -> str:
    order = state.assignments[client]
    if order is None:
        return "idle"
    if order.task_id is None:
        return "compares the whole model"
    name = state.ledger.entries[order.task_id].task.name
    if order.retries:
        return f"tries again what failed of {name}"
    return f"{'tunes' if order.trials else 'measures again'} {name}"
