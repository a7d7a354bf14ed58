"""Random farms, whatever happens to them, keep their promises and come to an end."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.server.farms import farm
from tests.tuner.records_of import candidate, record_of
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
    SearchOver,
)
from tune_farm.server.state import Assignment, FarmState, Limits, Phase
from tune_farm.tuner.types import Fault

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
