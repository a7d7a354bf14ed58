"""What clients say is stored before it is acknowledged; what the state decides is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.server.scripted_farm import COMPARISON, JOB, TASKS, ScriptedFarm, obey
from tests.tuner.records_of import DEVICE, candidate, record_of
from tune_farm.client.messages import (
    ClientBroken,
    CompareOrder,
    FinalOrder,
    ModelFailed,
    Order,
    OrderDone,
    Payload,
    RecordKnown,
    RetryOrder,
    TuneOrder,
)
from tune_farm.server.events import EventLog, pruned_of
from tune_farm.server.failures import FailureLog
from tune_farm.server.farm import Farm
from tune_farm.server.interrupts import Interrupts
from tune_farm.server.ledger import Ledger
from tune_farm.server.search import Search
from tune_farm.server.state import FarmState, Limits, Phase
from tune_farm.tuner.errors import EnvironmentUnusableError
from tune_farm.tuner.interfaces import Pruned
from tune_farm.tuner.predictor.lessons import Lesson
from tune_farm.tuner.records.journal import Journal
from tune_farm.tuner.records.query import still_failed
from tune_farm.tuner.records.schema import Header
from tune_farm.tuner.types import Record


@pytest.fixture
def header() -> Header:
    return Header(
        run_id="run",
        model="model",
        batch=1,
        sequence=None,
        shapes=(),
        target_json="{}",
        device_class=DEVICE.device_class,
        share_kind="cores",
        share_granted=1,
        share_total=2,
        asked_percent=50,
        tune_farm_version="0",
        tvm_version="0",
        seed=0,
        strategy="metaschedule",
        layout="given",
        fast_math=False,
        created=0.0,
    )


@pytest.fixture
def kept() -> list[Any]:
    """What the search gave away to be kept for other runs."""
    return []


@pytest.fixture
def open_search(tmp_path: Path, header: Header, kept: list[Any]) -> Iterator[Callable[..., Search]]:
    opened: list[Any] = []

    def make(
        *,
        budget_seconds: float | None = None,
        resume: bool = False,
        retries: Sequence[str] = (),
        **limits: object,
    ) -> Search:
        path = tmp_path / "records.jsonl"
        journal = Journal.open(path) if resume else Journal.create(path, header)
        events = EventLog(tmp_path / "events.jsonl")
        opened.extend((journal, events))
        failures = tmp_path / "failures"
        failures.mkdir(exist_ok=True)
        farm = ScriptedFarm(journal)
        all_limits = {"batch": 4, "first_batch": 4, "trials_per_task": 4} | limits
        return Search(
            state=FarmState(
                Ledger(TASKS, journal.records),
                {task.id: 1.0 for task in TASKS},
                Limits(**all_limits),  # type: ignore[arg-type]
                retries=retries,
            ),
            farm=cast(Farm, farm),
            journal=journal,
            events=events,
            failures=FailureLog(failures),
            tasks={task.id: task for task in TASKS},
            budget_seconds=budget_seconds,
            make_job=lambda: JOB,
            show=lambda _: None,
            keep=lambda lessons, tasks: kept.extend((each, tasks) for each in lessons),
        )

    yield make
    for each in opened:
        each.close()


def farm_of(search: Search) -> ScriptedFarm:
    return cast(ScriptedFarm, search.farm)


def run(search: Search, *clients: str, interrupts: Any = None) -> None:
    for client in clients:
        farm_of(search).start_client(client)
    search.run(interrupts or Interrupts())


def orders_of(search: Search) -> list[str]:
    names = {
        TuneOrder: "tune",
        RetryOrder: "retry",
        FinalOrder: "final",
        CompareOrder: "compare",
    }
    return [names[type(order)] for order in farm_of(search).orders]


def events_of(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("clients", [("one",), ("one", "two", "three")])
def test_a_run_from_the_first_order_to_the_comparison(
    open_search: Callable[..., Search], tmp_path: Path, clients: tuple[str, ...]
) -> None:
    search = open_search()

    run(search, *clients)

    assert search.state.phase is Phase.DONE
    assert orders_of(search) == ["tune", "tune", "final", "final", "compare"]
    assert search.comparison == COMPARISON
    # Said twice, stored once: a baseline, four trials and three finals of each task.
    assert len(search.journal.records) == 2 * (1 + 4 + 3)
    assert set(search.stage_seconds) >= {"search"}
    phases = [event["phase"] for event in events_of(tmp_path) if event["kind"] == "phase"]
    assert phases[-1] == "done"
    assert [cause.count for cause in search.failures.causes] == [2]


def test_what_was_pruned_is_counted_and_noted(
    open_search: Callable[..., Search], tmp_path: Path
) -> None:
    search = open_search()

    def script(order: Order) -> list[Payload]:
        *records, done = obey(order)
        if isinstance(order, TuneOrder):
            assert isinstance(done, OrderDone)
            done = replace(done, pruned=Pruned(over_limit=1, predicted_slow=40))
        return [*records, done]

    farm_of(search).script = script
    run(search, "one")

    assert search.pruned == pruned_of(tmp_path / "events.jsonl")
    assert search.pruned == Pruned(over_limit=2, predicted_slow=80)


def test_orders_carry_all_that_is_known_of_their_task(
    open_search: Callable[..., Search],
) -> None:
    search = open_search(trials_per_task=8)

    run(search, "one")

    for order in farm_of(search).orders:
        if isinstance(order, TuneOrder | FinalOrder):
            assert {record.candidate.task_id for record in order.known} <= {order.task.id}
    last = [order for order in farm_of(search).orders if isinstance(order, TuneOrder)][-1]
    assert len(last.known) == 5


def test_a_resumed_run_does_only_what_is_left(open_search: Callable[..., Search]) -> None:
    run(open_search(), "one")

    again = open_search(resume=True)
    before = again.spent_seconds
    run(again, "one")

    assert orders_of(again) == ["compare"]
    assert again.spent_seconds == before


def test_the_budget_ends_the_search_and_finals_come_after_it(
    open_search: Callable[..., Search],
) -> None:
    search = open_search(budget_seconds=0.0, trials_per_task=None)

    run(search, "one")

    assert farm_of(search).stops == 1
    assert orders_of(search)[-2:] == ["final", "compare"]
    assert search.state.phase is Phase.DONE


def test_what_failed_is_tried_again_though_the_budget_is_over(
    open_search: Callable[..., Search],
) -> None:
    first = open_search()
    run(first, "one")
    failed = [r for found in still_failed(first.journal.records).values() for r in found]
    assert len(failed) == 2  # one of each task
    first.journal.close()

    second = open_search(resume=True, budget_seconds=1e-9, retries=["a", "b"])
    run(second, "one")

    assert orders_of(second)[:2] == ["retry", "retry"]
    assert "tune" not in orders_of(second)
    assert not still_failed(second.journal.records)
    assert [row["kind"] for row in events_of(second.journal.path.parent)].count("retry") == 2
    for record in failed:
        entry = second.state.ledger.entries[record.candidate.task_id]
        assert record.candidate.id in entry.search
        assert entry.trials == 4


def test_a_broken_client_is_replaced(open_search: Callable[..., Search], tmp_path: Path) -> None:
    search = open_search()
    broken = [True]

    def break_once(order: Order) -> list[Payload]:
        return [ClientBroken(detail="no memory\nmore")] if broken and broken.pop() else obey(order)

    farm_of(search).script = break_once
    run(search, "one")

    assert search.state.phase is Phase.DONE
    assert search.broken == "no memory"
    assert [e["client"] for e in events_of(tmp_path) if e["kind"] == "client_lost"] == ["one"]


def test_a_farm_where_no_client_can_work_says_what_it_died_of(
    open_search: Callable[..., Search],
) -> None:
    search = open_search()
    farm_of(search).script = lambda order: [ClientBroken(detail="no memory\nmore")]

    with pytest.raises(EnvironmentUnusableError, match="no client can work here: no memory"):
        run(search, "one")


def test_what_clients_learned_is_kept(open_search: Callable[..., Search], kept: list[Any]) -> None:
    search = open_search()
    lesson = Lesson(task_id="a", features=(1.0,), log2_error=0.5)

    def learn(order: Order) -> list[Payload]:
        *said, last = obey(order)
        if isinstance(last, OrderDone) and isinstance(order, TuneOrder):
            last = replace(last, lessons=(lesson,))
        return [*said, last]

    farm_of(search).script = learn
    run(search, "one")

    assert kept == [(lesson, search.tasks)] * 2


def test_a_task_that_cannot_be_tuned_does_not_hold_up_the_others(
    open_search: Callable[..., Search], tmp_path: Path
) -> None:
    search = open_search()

    def refuse_a(order: Order) -> list[Payload]:
        if isinstance(order, TuneOrder) and order.task.id == "a":
            return [OrderDone(order_id=order.order_id, proposed=0, failure="it is odd\nvery")]
        return obey(order)

    farm_of(search).script = refuse_a
    run(search, "one")

    assert orders_of(search) == ["tune", "tune", "final", "compare"]
    assert search.state.ledger.entries["a"].failure == "it is odd\nvery"
    assert any(event["kind"] == "task_failed" for event in events_of(tmp_path))


def test_a_comparison_that_fails_is_kept(open_search: Callable[..., Search]) -> None:
    search = open_search()

    def fail_to_compare(order: Order) -> list[Payload]:
        if isinstance(order, CompareOrder):
            return [ModelFailed(order_id=order.order_id, detail="the tuned model does not build")]
        return obey(order)

    farm_of(search).script = fail_to_compare
    run(search, "one")

    assert search.state.phase is Phase.DONE
    assert search.comparison is None
    assert search.comparison_failure == "the tuned model does not build"


def test_after_a_signal_the_measurement_in_flight_is_still_stored(
    open_search: Callable[..., Search],
) -> None:
    search = open_search()
    in_flight: Record = record_of(candidate(1, "a"))
    farm = farm_of(search)

    class Signalled:
        """A signal that comes with the first order."""

        @property
        def received(self) -> int | None:
            if not farm.orders:
                return None
            if not farm.news:
                order_id = farm.orders[-1].order_id
                farm.say("one", RecordKnown(order_id=order_id, record=in_flight))
                farm.say("one", OrderDone(order_id=order_id, proposed=1, failure=None))
            return 2

    farm.script = lambda order: []
    run(search, "one", interrupts=Signalled())

    assert farm.stops == 1
    assert search.journal.records == (in_flight,)
    assert search.state.phase is Phase.SEARCH
    assert len(farm.orders) == 1


def test_the_clock_stands_until_the_first_candidate(open_search: Callable[..., Search]) -> None:
    search = open_search()
    assert search.spent_seconds == 0.0
    waiting = SimpleNamespace(received=15)

    run(search, interrupts=waiting)

    assert search.spent_seconds == 0.0
