"""The farm's decisions: events in, commands out; then random farms that all come to an end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.tuner.records_of import candidate, plain_task, record_of
from tune_farm.server.decisions import (
    ClientJoined,
    ClientLost,
    Command,
    Event,
    GiveComparison,
    GiveFinal,
    GiveTrials,
    ModelJudged,
    OrderEnded,
    RecordStored,
    RestartClient,
    SearchOver,
    StopOrders,
)
from tune_farm.server.ledger import Ledger
from tune_farm.server.state import Assignment, FarmState, Limits, Phase
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.types import Fault, Purpose, Record


def farm(tasks: Sequence[str] = ("a", "b"), **limits: object) -> FarmState:
    """A farm with nobody there; the first task is the costliest."""
    costs = {task_id: float(len(tasks) - number) for number, task_id in enumerate(tasks)}
    ledger = Ledger([plain_task(task_id) for task_id in tasks], ())
    all_limits = {"batch": 16, "first_batch": 16} | limits
    return FarmState(ledger, costs, Limits(**all_limits))  # type: ignore[arg-type]


def join(state: FarmState, client: str) -> list[Command]:
    return state.handle(ClientJoined(client=client))


def lose(state: FarmState, client: str) -> list[Command]:
    return state.handle(ClientLost(client=client))


def end(
    state: FarmState, client: str, order_id: int, *, proposed: int = 16, failure: str | None = None
) -> list[Command]:
    return state.handle(
        OrderEnded(client=client, order_id=order_id, proposed=proposed, failure=failure)
    )


def store(state: FarmState, *records: Record) -> None:
    for record in records:
        assert state.handle(RecordStored(record=record)) == []


def give(client: str, order_id: int, task_id: str, trials: int = 16) -> GiveTrials:
    return GiveTrials(client=client, order_id=order_id, task_id=task_id, trials=trials)


def measured(task_id: str, count: int, *, first: int = 0, seconds: float = 1e-3) -> list[Record]:
    return [record_of(candidate(first + n, task_id), seconds + n * 1e-6) for n in range(count)]


def baseline(task_id: str, seconds: float = 1.0) -> Record:
    return record_of(untuned(plain_task(task_id)), seconds, purpose=Purpose.BASELINE)


def test_whoever_joins_gets_work_from_its_shard_the_costliest_first() -> None:
    state = farm(["a", "b", "c"])

    assert join(state, "one") == [give("one", 1, "a")]
    assert join(state, "two") == [give("two", 2, "b")]
    assert {task for shard in state.shards.values() for task in shard} == {"a", "b", "c"}
    assert "b" in state.shards["two"]


def test_a_first_order_is_a_small_one() -> None:
    state = farm(["a"], first_batch=6)

    assert join(state, "one") == [give("one", 1, "a", trials=6)]
    store(state, *measured("a", 6))
    assert end(state, "one", 1) == [give("one", 2, "a", trials=16)]


def test_a_third_client_waits_where_all_tasks_are_at_work() -> None:
    state = farm(["a", "b"])
    join(state, "one")
    join(state, "two")

    assert join(state, "three") == []
    assert state.idle == ["three"]
    # The freed task goes to whoever comes first by name; nobody rests while it waits.
    assert end(state, "two", 2) == [give("three", 3, "b")]


def test_a_client_that_is_done_goes_on() -> None:
    state = farm(["a", "b"])
    join(state, "one")
    store(state, baseline("a"), *measured("a", 16))

    assert end(state, "one", 1) == [give("one", 2, "b")]


def test_an_order_is_settled_once() -> None:
    state = farm(["a", "b"])
    join(state, "one")
    store(state, *measured("a", 16))

    assert end(state, "one", 1) == [give("one", 2, "b")]
    assert end(state, "one", 1) == []
    assert end(state, "nobody", 2) == []
    assert state.assignments == {"one": Assignment(order_id=2, task_id="b", trials=16)}


def test_an_exhausted_task_gets_no_more() -> None:
    state = farm(["a"])
    join(state, "one")
    store(state, *measured("a", 3))

    end(state, "one", 1, proposed=3)
    commands = end(state, "one", 2, proposed=0)

    assert isinstance(commands[0], GiveFinal)


def test_a_lost_client_is_replaced_and_its_task_goes_on() -> None:
    state = farm(["a", "b"])
    join(state, "one")
    join(state, "two")

    assert lose(state, "one") == [RestartClient(client="one")]
    assert set(state.shards) == {"two"}
    assert state.ledger.entries["a"].given == 0
    assert join(state, "one") == [give("one", 3, "a")]


def test_an_idle_client_takes_over_from_a_lost_one_at_once() -> None:
    state = farm(["a"])
    join(state, "one")
    join(state, "two")

    assert lose(state, "one") == [RestartClient(client="one"), give("two", 2, "a")]


def test_a_task_that_loses_two_clients_is_given_up() -> None:
    state = farm(["a", "b"])
    join(state, "one")
    lose(state, "one")
    join(state, "one")
    lose(state, "one")

    assert join(state, "one") == [give("one", 3, "b")]
    assert state.ledger.entries["a"].failure == "2 clients were lost while they tuned it"


def test_a_task_is_not_blamed_for_clients_that_cannot_work_at_all() -> None:
    state = farm(["a"])
    for order_id in range(1, 6):
        assert join(state, "one") == [give("one", order_id, "a")]
        lost = state.handle(ClientLost(client="one", broken=True))
        assert lost == [RestartClient(client="one")]

    join(state, "one")
    assert state.handle(ClientLost(client="one", broken=True)) == []
    assert state.ledger.entries["a"].failure is None


def test_a_slot_that_keeps_dying_stays_empty() -> None:
    state = farm([f"task{number}" for number in range(9)])
    restarts = []
    for _ in range(7):
        join(state, "one")
        restarts.append(lose(state, "one"))

    assert restarts == [[RestartClient(client="one")]] * 5 + [[], []]


def test_a_task_that_cannot_be_tuned_is_not_given_again() -> None:
    state = farm(["a", "b"])
    join(state, "one")

    assert end(state, "one", 1, proposed=0, failure="no compiler likes it\nat all") == [
        give("one", 2, "b")
    ]
    assert state.ledger.entries["a"].failure == "no compiler likes it\nat all"


@pytest.mark.parametrize(
    ("limits", "trials"),
    [
        ({"trials_per_task": 20}, {"a": [16, 4], "b": [16, 4]}),
        ({"trials": 20}, {"a": [16], "b": [4]}),
        ({"trials": 40, "trials_per_task": 18}, {"a": [16, 2], "b": [16, 2]}),
        ({"trials": 3}, {"a": [3], "b": []}),
    ],
)
def test_limits_are_reached_and_never_passed(
    limits: dict[str, int], trials: dict[str, list[int]]
) -> None:
    state = farm(["a", "b"], **limits)
    given: dict[str, list[int]] = {"a": [], "b": []}
    commands = join(state, "one")
    while commands and isinstance(command := commands[0], GiveTrials):
        first = sum(given[command.task_id])
        given[command.task_id].append(command.trials)
        store(state, *measured(command.task_id, command.trials, first=first))
        commands = end(state, "one", command.order_id)

    assert given == trials


def finals_begin() -> tuple[FarmState, list[Command]]:
    """Two clients at work on one task each; then the budget is over and both come to an end."""
    state = farm(["a", "b"])
    join(state, "one")
    join(state, "two")
    for task_id in ("a", "b"):
        store(state, baseline(task_id), *measured(task_id, 2))
    assert state.handle(SearchOver()) == [StopOrders()]
    assert state.phase is Phase.DRAIN
    assert end(state, "two", 2, proposed=2) == []
    return state, end(state, "one", 1, proposed=2)


def final(client: str, order_id: int, task_id: str) -> GiveFinal:
    finalists = (candidate(0, task_id), candidate(1, task_id))
    return GiveFinal(client=client, order_id=order_id, task_id=task_id, candidates=finalists)


def test_finals_are_measured_one_at_a_time_with_everyone_else_idle() -> None:
    state, commands = finals_begin()

    assert commands == [final("one", 3, "a")]
    assert state.idle == ["two"]
    assert end(state, "one", 3) == [final("one", 4, "b")]


def test_the_model_is_compared_once_all_finals_are_in_and_then_it_is_done() -> None:
    state, _ = finals_begin()
    end(state, "one", 3)

    assert end(state, "one", 4) == [GiveComparison(client="one", order_id=5)]
    assert state.handle(ModelJudged(client="two", order_id=5)) == []
    assert state.idle == ["two"]
    assert state.handle(ModelJudged(client="one", order_id=5)) == []
    assert state.phase is Phase.DONE
    assert lose(state, "one") == []


def test_finals_and_comparison_of_a_lost_client_go_to_another() -> None:
    state, _ = finals_begin()

    assert lose(state, "one") == [RestartClient(client="one"), final("two", 4, "a")]
    assert end(state, "two", 4) == [final("two", 5, "b")]
    assert end(state, "two", 5) == [GiveComparison(client="two", order_id=6)]
    assert lose(state, "two") == [RestartClient(client="two")]
    assert join(state, "one") == [GiveComparison(client="one", order_id=7)]
    assert lose(state, "one") == [RestartClient(client="one")]
    assert join(state, "one") == []
    assert state.phase is Phase.DONE


def test_finals_that_lose_two_clients_are_left_out() -> None:
    state, _ = finals_begin()
    lose(state, "one")

    assert lose(state, "two") == [RestartClient(client="two")]
    assert join(state, "one") == [final("one", 5, "b")]


def test_where_nothing_was_gained_there_is_nothing_to_compare() -> None:
    state = farm(["a"], trials=1)
    join(state, "one")
    store(state, baseline("a", 1e-6), *measured("a", 1))

    end(state, "one", 1, proposed=1)
    end(state, "one", 2)

    assert state.phase is Phase.DONE


def test_a_model_that_cannot_run_is_not_compared() -> None:
    state = farm(["a"], trials=1, compares=False)
    join(state, "one")
    store(state, baseline("a"), *measured("a", 1))
    end(state, "one", 1)

    assert end(state, "one", 2) == []
    assert state.phase is Phase.DONE


def test_a_client_leaves_its_shard_for_what_promises_far_more() -> None:
    state = farm(["big", "small", "tiny"])
    join(state, "one")
    join(state, "two")
    state.shards = {"one": ("big",), "two": ("small", "tiny")}
    store(state, baseline("big", 1e-6), *measured("big", 16, seconds=1e-7))
    store(state, baseline("small", 1.0), *measured("small", 16, seconds=0.5))
    end(state, "two", 2)
    store(state, baseline("tiny", 1e-6), *measured("tiny", 16, seconds=1e-7))

    assert end(state, "one", 1) == [give("one", 4, "small")]
    assert "small" in state.shards["one"]


def test_a_search_over_twice_stops_once() -> None:
    state = farm(["a"])
    join(state, "one")

    assert state.handle(SearchOver()) == [StopOrders()]
    assert state.handle(SearchOver()) == []


CLIENTS = ("one", "two", "three")


class RandomFarm(RuleBasedStateMachine):
    """Clients join, die, and finish orders as hypothesis likes; the farm must come to its end."""

    def __init__(self) -> None:
        super().__init__()
        self.make: Callable[[], FarmState] = farm
        self.state = farm()
        self.log: list[tuple[Event, list[Command]]] = []
        self.reported: dict[int, int] = {}  #: by order: records so far
        self.candidates = 0

    @initialize(
        tasks=st.integers(1, 5),
        per_task=st.none() | st.integers(1, 40),
        trials=st.none() | st.integers(1, 60),
        batch=st.integers(1, 16),
        first_batch=st.integers(1, 16),
    )
    def begin(
        self, tasks: int, per_task: int | None, trials: int | None, batch: int, first_batch: int
    ) -> None:
        names = [f"task{number}" for number in range(tasks)]
        self.limits = Limits(trials_per_task=per_task, trials=trials, batch=batch)
        self.make = lambda: farm(
            names, trials_per_task=per_task, trials=trials, batch=batch, first_batch=first_batch
        )
        self.state = self.make()

    def handle(self, event: Event) -> None:
        commands = self.state.handle(event)
        self.log.append((event, commands))
        for command in commands:
            if isinstance(command, GiveTrials):
                assert self.state.phase is Phase.SEARCH
                assert command.trials > 0
                assert self.state.ledger.entries[command.task_id].failure is None
            elif isinstance(command, GiveFinal | GiveComparison):
                assert len(self.busy) == 1
            if isinstance(command, GiveTrials | GiveFinal | GiveComparison):
                order = self.state.assignments[command.client]
                assert order is not None
                assert order.order_id == command.order_id
                self.reported[command.order_id] = 0

    @property
    def busy(self) -> list[str]:
        return sorted(c for c, order in self.state.assignments.items() if order is not None)

    def order_of(self, client: str) -> Assignment:
        order = self.state.assignments[client]
        assert order is not None
        return order

    @precondition(lambda self: len(self.state.assignments) < len(CLIENTS))
    @rule(data=st.data())
    def join(self, data: st.DataObject) -> None:
        absent = sorted(set(CLIENTS) - set(self.state.assignments))
        self.handle(ClientJoined(client=data.draw(st.sampled_from(absent))))

    @precondition(lambda self: self.state.assignments)
    @rule(data=st.data(), broken=st.booleans())
    def lose(self, data: st.DataObject, broken: bool) -> None:
        client = data.draw(st.sampled_from(sorted(self.state.assignments)))
        self.handle(ClientLost(client=client, broken=broken))

    @precondition(lambda self: self.busy)
    @rule(
        data=st.data(),
        result=st.floats(1e-6, 1.0) | st.sampled_from(Fault),
        count=st.integers(1, 8),
    )
    def report(self, data: st.DataObject, result: float | Fault, count: int) -> None:
        order = self.order_of(data.draw(st.sampled_from(self.busy)))
        if order.task_id is None:
            return
        for _ in range(min(count, order.trials - self.reported[order.order_id])):
            self.reported[order.order_id] += 1
            self.candidates += 1
            record = record_of(candidate(self.candidates, order.task_id), result)
            self.handle(RecordStored(record=record))

    @precondition(lambda self: self.busy)
    @rule(data=st.data(), failure=st.none() | st.just("cannot be tuned"))
    def finish(self, data: st.DataObject, failure: str | None) -> None:
        self.end(data.draw(st.sampled_from(self.busy)), failure)

    def end(self, client: str, failure: str | None = None) -> None:
        order = self.order_of(client)
        if order.task_id is None:
            self.handle(ModelJudged(client=client, order_id=order.order_id))
            return
        proposed = self.reported[order.order_id]
        self.handle(
            OrderEnded(client=client, order_id=order.order_id, proposed=proposed, failure=failure)
        )

    @rule()
    def spend_the_budget(self) -> None:
        self.handle(SearchOver())

    @rule(client=st.sampled_from(CLIENTS), order_id=st.integers(0, 50))
    def hear_a_stranger(self, client: str, order_id: int) -> None:
        order = self.state.assignments.get(client)
        if order is None or order.order_id != order_id:
            self.handle(OrderEnded(client=client, order_id=order_id, proposed=1, failure=None))

    @invariant()
    def no_task_is_at_two_clients(self) -> None:
        tasks = [self.order_of(client).task_id for client in self.busy]
        assert len(set(tasks)) == len(tasks)

    @invariant()
    def nobody_rests_while_a_task_waits(self) -> None:
        if self.state.phase is not Phase.SEARCH or not self.state.idle:
            return
        at_work = {self.order_of(client).task_id for client in self.busy}
        progresses = [entry.progress for entry in self.state.ledger.entries.values()]
        spent = sum(progress.trials for progress in progresses)
        if self.limits.trials is not None and spent >= self.limits.trials:
            return
        for progress in progresses:
            limit = self.limits.trials_per_task
            is_full = limit is not None and progress.trials >= limit
            assert progress.task_id in at_work or not progress.is_open or is_full

    @invariant()
    def limits_hold(self) -> None:
        coming = {
            order.task_id: order.trials - self.reported[order.order_id]
            for order in map(self.order_of, self.busy)
        }
        totals = [
            entry.trials + coming.get(task_id, 0)
            for task_id, entry in self.state.ledger.entries.items()
        ]
        assert sum(totals) <= (self.limits.trials or sum(totals))
        assert max(totals) <= (self.limits.trials_per_task or max(totals))

    @invariant()
    def what_is_out_is_what_was_given(self) -> None:
        out = {o.task_id: o.trials for o in map(self.order_of, self.busy)}
        for task_id, entry in self.state.ledger.entries.items():
            assert entry.given == out.get(task_id, 0)

    @invariant()
    def shards_are_a_division_of_the_tasks(self) -> None:
        assert set(self.state.shards) == set(self.state.assignments)
        if self.state.shards:
            tasks = sorted(task for shard in self.state.shards.values() for task in shard)
            assert tasks == sorted(self.state.ledger.entries)

    @invariant()
    def finals_and_comparison_run_alone(self) -> None:
        if self.state.phase in (Phase.FINAL, Phase.COMPARE):
            assert len(self.busy) == bool(self.state.assignments)

    @invariant()
    def what_kills_clients_is_given_up(self) -> None:
        for entry in self.state.ledger.entries.values():
            assert entry.deaths < 2 or entry.failure is not None

    def teardown(self) -> None:
        if not self.state.assignments:
            self.handle(ClientJoined(client="one"))
        for _ in range(200):
            if self.state.phase is Phase.DONE:
                break
            self.end(self.busy[0])  # without any record: what is asked for more is exhausted
        assert self.state.phase is Phase.DONE
        assert self.busy == []
        replayed = self.make()
        for event, commands in self.log:
            assert replayed.handle(event) == commands


TestRandomFarm = RandomFarm.TestCase
TestRandomFarm.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
