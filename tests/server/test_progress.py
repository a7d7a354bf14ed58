"""Pictures of a search: what each task and client does, and how each task ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.tuner.records_of import candidate, plain_task, record_of
from tune_farm.server.decisions import ClientJoined, OrderEnded, RecordStored, SearchOver
from tune_farm.server.ledger import Ledger
from tune_farm.server.progress import pace_of, picture_of, task_summaries, trial_counts
from tune_farm.server.report.summary import TaskState, TaskSummary
from tune_farm.server.search import Search
from tune_farm.server.state import FarmState, Limits
from tune_farm.tuner.interfaces import Pruned
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.types import Fault, Purpose, Record

TASKS = [plain_task("a", weight=3), plain_task("b")]
BASELINE = record_of(untuned(TASKS[0]), 1.0, purpose=Purpose.BASELINE)


def searching(state: FarmState, records: list[Record]) -> Search:
    """A search of which nothing but these parts is looked at."""
    causes = (SimpleNamespace(fault="run_error", first_line="the cause", count=2),)
    parts = SimpleNamespace(
        state=state,
        journal=SimpleNamespace(records=tuple(records)),
        failures=SimpleNamespace(causes=causes if records else ()),
        farm=SimpleNamespace(dashboard_url="http://here"),
        spent_seconds=12.5,
        budget_seconds=60.0,
        pruned=Pruned(over_limit=3, predicted_slow=40),
        earlier=0,
    )
    return cast(Search, parts)


def state_of(**limits: Any) -> FarmState:
    return FarmState(Ledger(TASKS, ()), {"a": 2.0, "b": 1.0}, Limits(**limits))


def test_the_pace_is_that_of_the_latest_trials_of_this_session() -> None:
    slow = [replace(record_of(candidate(n, "a")), time=100.0 * n) for n in range(20)]
    quick = [replace(record_of(candidate(n, "a")), time=2000.0 + n) for n in range(60)]
    final = replace(record_of(candidate(1, "a"), purpose=Purpose.FINAL), time=9000.0)

    assert pace_of(slow[:3]) is None
    assert pace_of(slow) == 100.0
    assert pace_of([*slow, *quick, final]) == 1.0
    search = searching(state_of(trials=200), [*slow, *quick])
    search.earlier = len(slow)
    assert picture_of(search).pace_seconds == 1.0


def test_another_attempt_is_no_other_trial() -> None:
    failed = record_of(candidate(1, "a"), Fault.BUILD_TIMEOUT)
    again = record_of(candidate(1, "a"), 1e-3, attempt=1)

    picture = picture_of(searching(state_of(trials=3), [BASELINE, failed, again]))

    assert (picture.measured, picture.failed_total, picture.trials) == (1, 1, 1)


def test_before_any_client_is_there_it_is_set_up() -> None:
    picture = picture_of(searching(state_of(), []))

    assert picture.phase == "set-up"
    assert (picture.elapsed_seconds, picture.budget_seconds) == (12.5, 60.0)
    assert [row.state for row in picture.tasks] == ["waiting", "waiting"]
    assert picture.clients == ()
    assert picture.last_failure is None
    assert picture.dashboard_url == "http://here"


def test_tasks_and_clients_say_what_they_do() -> None:
    state = state_of(trials_per_task=5, first_batch=5)
    for client in ("two", "one"):
        state.handle(ClientJoined(client=client))
    records = [
        BASELINE,
        record_of(candidate(1, "a"), 0.5),
        record_of(candidate(2, "a"), Fault.LOST),
    ]
    for record in records:
        state.handle(RecordStored(record=record))

    picture = picture_of(searching(state, records))

    assert picture.phase == "search"
    assert [(row.name, row.state) for row in picture.tasks] == [
        ("name of a", "at work"),
        ("name of b", "at work"),
    ]
    row = picture.tasks[0]
    assert (row.weight, row.trials, row.baseline_seconds, row.best_seconds) == (3, 2, 1.0, 0.5)
    assert [(row.name, row.doing) for row in picture.clients] == [
        ("one", "tunes name of b"),
        ("two", "tunes name of a"),
    ]
    assert (picture.measured, picture.failed) == (1, (("lost", 1),))
    assert picture.pruned == 43
    assert picture.budget_trials == 10
    assert picture.last_failure == "run_error: the cause"


def test_finals_and_the_comparison_are_named() -> None:
    state = state_of()
    state.handle(ClientJoined(client="one"))
    for record in (BASELINE, record_of(candidate(1, "a"), 0.5)):
        state.handle(RecordStored(record=record))
    state.handle(SearchOver())
    state.handle(OrderEnded(client="one", order_id=1, proposed=1, failure=None))

    picture = picture_of(searching(state, []))
    assert picture.phase == "finals"
    assert picture.clients[0].doing == "measures again name of a"

    state.handle(OrderEnded(client="one", order_id=2, proposed=1, failure=None))
    picture = picture_of(searching(state, []))
    assert picture.phase == "end-to-end check"
    assert picture.clients[0].doing == "compares the whole model"


def test_counts_leave_baselines_and_finals_out() -> None:
    records = [
        BASELINE,
        record_of(candidate(1, "a"), 0.5),
        record_of(candidate(1, "a"), 0.5, purpose=Purpose.FINAL),
        record_of(candidate(2, "a"), Fault.RUN_ERROR),
    ]

    counts = trial_counts(searching(state_of(), records))

    assert (counts.measured, counts.failed) == (1, (("run_error", 1),))


def summary_of(
    *records: Record, interrupted: bool = False, failure: str | None = None, exhausted: bool = False
) -> TaskSummary:
    ledger = Ledger(TASKS[:1], records)
    ledger.entries["a"].failure = failure
    ledger.entries["a"].exhausted = exhausted
    (summary,) = task_summaries(FarmState(ledger, {"a": 1.0}, Limits()), interrupted=interrupted)
    return summary


FASTER = record_of(candidate(1, "a"), 0.5)
SLOWER = record_of(candidate(2, "a"), 2.0)
FAILED = record_of(candidate(3, "a"), Fault.RUN_ERROR)


@pytest.mark.parametrize(
    ("records", "how", "state", "reason"),
    [
        ([BASELINE, FASTER], {}, TaskState.TUNED, ""),
        ([BASELINE, FASTER], {"failure": "killed clients"}, TaskState.TUNED, ""),
        ([BASELINE, FASTER], {"interrupted": True}, TaskState.TUNED, ""),
        ([BASELINE, FAILED], {"failure": "why\nmore"}, TaskState.FAILED, "why"),
        ([BASELINE, SLOWER], {}, TaskState.BASELINE, "no candidate was faster"),
        ([BASELINE], {"interrupted": True}, TaskState.PENDING, "interrupted"),
        (
            [BASELINE, FAILED],
            {},
            TaskState.FAILED,
            "no candidate could be measured; first run_error: the cause",
        ),
        ([BASELINE], {"exhausted": True}, TaskState.BASELINE, "its design space holds no schedule"),
        ([BASELINE], {}, TaskState.BASELINE, "the budget did not reach it"),
        ([], {}, TaskState.BASELINE, "the budget did not reach it"),
    ],
)
def test_how_a_task_ended_and_why(
    records: list[Record], how: dict[str, Any], state: TaskState, reason: str
) -> None:
    summary = summary_of(*records, **how)

    assert summary.state is state
    assert summary.reason.startswith(reason)
    assert bool(summary.reason) is (state is not TaskState.TUNED)


def test_a_tuned_task_says_by_how_much_and_how_surely() -> None:
    summary = summary_of(BASELINE, FASTER)

    assert (summary.baseline_seconds, summary.best_seconds) == (1.0, 0.5)
    assert summary.spread_seconds == 0.0
    assert summary.saved_seconds == 1.5
    assert Counter([summary.trials, summary.weight]) == Counter([1, 3])
