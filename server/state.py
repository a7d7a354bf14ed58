"""Decides what every client does next: events in, commands out; no clock, file, Ray or TVM."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tune_farm.server.budget import TaskProgress, gain, next_task
from tune_farm.server.decisions import (
    ClientJoined,
    ClientLost,
    Command,
    Event,
    GiveComparison,
    GiveFinal,
    GiveRetry,
    GiveTrials,
    ModelJudged,
    OrderEnded,
    RecordStored,
    RestartClient,
    SearchOver,
    StopOrders,
)
from tune_farm.server.ledger import Ledger
from tune_farm.server.variants import (
    Alternatives,
    Standing,
    costs_of,
    tasks_behind,
    tasks_unused,
    tiles_of,
)
from tune_farm.sharding.plan import assign
from tune_farm.sharding.rebalance import rebalance

#: A client leaves its shard when a waiting task elsewhere promises this many times its own gain.
_WORTH_MOVING = 2.0
#: Restarts of one slot, after which it stays empty.
_MOST_RESTARTS = 5


class Phase(enum.Enum):
    """Where a run is."""

    SEARCH = "search"
    DRAIN = "drain"  # the budget is over; orders end
    FINAL = "final"  # finalists are measured again, alone
    COMPARE = "compare"  # the whole model, tuned against untuned
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When the search ends."""

    batch: int = 16  # trials of one order
    #: Trials of a task's first order: a few random schedules bring most of the gain, and a short
    #: budget must not leave half of the model as it was.
    first_batch: int = 6
    trials_per_task: int | None = None
    trials: int | None = None  # of the whole run
    compares: bool = True  # the whole model can be built


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """An order that is out."""

    order_id: int
    task_id: str | None  # None: the comparison
    trials: int
    retries: bool = False  # what failed is tried again


class FarmState:
    """The farm's decisions. Mutated through `handle` alone."""

    def __init__(
        self,
        ledger: Ledger,
        costs: Mapping[str, float],
        limits: Limits,
        alternatives: Sequence[Alternatives] = (),
        *,
        retries: Iterable[str] = (),
    ) -> None:
        """Start with nobody there.

        Args:
            ledger: the tasks, with what earlier sessions learned of them.
            costs: expected cost of tuning each task, any unit.
            limits: when the search ends.
            alternatives: operators that are tuned in several variants, tasks of the ledger.
            retries: tasks of which all that failed is tried again before anything new.
        """
        self.ledger = ledger
        self.alternatives = tuple(alternatives)
        self.phase = Phase.SEARCH
        self.assignments: dict[str, Assignment | None] = {}  #: by client present; None = idle
        self.shards: dict[str, tuple[str, ...]] = {}  #: by client present: its tasks
        self._costs = dict(costs)
        self._begun_by = costs_of(costs, self.alternatives)  #: the costliest first
        self._limits = limits
        self._retries = dict.fromkeys(retries)  #: tasks whose retries are not given yet, in order
        self._orders = 0  #: ids given so far
        self._restarts: dict[str, int] = {}  #: by client
        self._compare_tries = 0
        #: Tasks of variants that can't win any more: they are given nothing.
        self.behind = tasks_behind(self.alternatives, self._standing)

    def handle(self, event: Event) -> list[Command]:
        """Take in an event; return what is to be done about it, in order."""
        commands: list[Command] = []
        match event:
            case RecordStored(record=record):
                self.ledger.add(record)
                return []
            case ClientJoined(client=client):
                self.assignments[client] = None
                self._spread()
            case ClientLost(client=client, broken=broken):
                commands += self._lose(client, broken=broken)
            case OrderEnded() | ModelJudged():
                self._settle(event)
            case SearchOver():
                if self.phase is Phase.SEARCH:
                    self.phase = Phase.DRAIN
                    commands.append(StopOrders())
        return commands + self._go_on()

    @property
    def trials_allowed(self) -> int | None:
        """Trials of the whole run, if they are limited; what ended early takes no more."""
        most = self._limits.trials_per_task or math.inf
        entries = self.ledger.entries.values()
        reach = sum(most if entry.progress.is_open else entry.trials for entry in entries)
        bound = min(reach, self._limits.trials or math.inf)
        return None if bound == math.inf else int(bound)

    @property
    def is_retrying(self) -> bool:
        """Whether something that failed is still to be tried again, which no budget limits."""
        out = (order.retries for order in self.assignments.values() if order is not None)
        return bool(self._retries) or any(out)

    @property
    def idle(self) -> list[str]:
        """Clients without an order, by name."""
        return sorted(client for client, order in self.assignments.items() if order is None)

    @property
    def unused(self) -> dict[str, str]:
        """Tasks that are no part of the model as things stand, and why."""
        return tasks_unused(self.alternatives, self._standing)

    @property
    def tiles(self) -> dict[str, int]:
        """The Winograd tile of each function that is replaced in the model as things stand."""
        return tiles_of(self.alternatives, self._standing)

    def _standing(self, task_id: str) -> Standing:
        return self.ledger.entries[task_id].standing

    def _spread(self) -> None:
        clients = sorted(self.assignments)
        if not clients:
            self.shards = {}
        elif self.shards:
            self.shards = rebalance(self.shards, self._costs, clients)
        else:
            self.shards = assign(self._costs, clients)

    def _lose(self, client: str, *, broken: bool) -> list[Command]:
        order = self.assignments.pop(client, None)
        if order is not None and order.task_id is not None:
            if not broken:
                self.ledger.died(order.task_id)
            if order.retries and self.ledger.entries[order.task_id].failure is None:
                self._retries[order.task_id] = None
            self.ledger.settle(order.task_id, order.trials, proposed=0, cut_short=True)
        self._spread()
        self._restarts[client] = self._restarts.get(client, 0) + 1
        if self._restarts[client] > _MOST_RESTARTS or self.phase is Phase.DONE:
            return []
        return [RestartClient(client=client)]

    def _settle(self, event: OrderEnded | ModelJudged) -> None:
        order = self.assignments.get(event.client)
        if order is None or order.order_id != event.order_id:
            return  # said twice, or by a client that was given up meanwhile
        self.assignments[event.client] = None
        if isinstance(event, ModelJudged):
            self.phase = Phase.DONE
            return
        assert order.task_id is not None
        self.ledger.settle(
            order.task_id,
            order.trials,
            proposed=event.proposed,
            cut_short=self.phase is not Phase.SEARCH or event.failure is not None,
        )
        if event.failure is not None:
            self.ledger.give_up(order.task_id, event.failure)
        self.behind = tasks_behind(self.alternatives, self._standing)

    def _go_on(self) -> list[Command]:
        commands: list[Command] = []
        if self.phase is Phase.SEARCH:
            for client in self.idle:
                commands += self._give_retry(client) or self._give_trials(client)
        if not self._anyone_at_work:
            if self.phase in (Phase.SEARCH, Phase.DRAIN) and self._search_is_over:
                self.phase = Phase.FINAL
            if self.phase is Phase.FINAL and self.idle:
                commands += self._give_final(self.idle[0])
            if self.phase is Phase.COMPARE and self.idle:
                commands += self._give_comparison(self.idle[0])
        return commands

    @property
    def _anyone_at_work(self) -> bool:
        return any(order is not None for order in self.assignments.values())

    @property
    def _search_is_over(self) -> bool:
        if self.phase is Phase.DRAIN:
            return True
        if self._retries:
            return False
        if self._trials_left() == 0:
            return True
        return not any(self._batch_of(task_id) for task_id in self.ledger.entries)

    def _trials_left(self) -> int | None:
        if self._limits.trials is None:
            return None
        used = sum(entry.trials + entry.given for entry in self.ledger.entries.values())
        return max(0, self._limits.trials - used)

    def _batch_of(self, task_id: str) -> int:
        """Trials that a task may be given now; 0 if it is closed or its limit is reached."""
        entry = self.ledger.entries[task_id]
        progress = entry.progress
        if not progress.is_open or task_id in self.behind:
            return 0
        bounds = [self._limits.batch if progress.trials else self._limits.first_batch]
        if self._limits.trials_per_task is not None:
            bounds.append(self._limits.trials_per_task - progress.trials)
        if (left := self._trials_left()) is not None:
            bounds.append(left)
        return max(0, min(bounds))

    def _give_retry(self, client: str) -> list[Command]:
        at_work = {order.task_id for order in self.assignments.values() if order is not None}
        task_id = next((task for task in self._retries if task not in at_work), None)
        if task_id is None:
            return []
        del self._retries[task_id]
        order = self._assign(client, task_id, 0, retries=True)
        return [GiveRetry(client=client, order_id=order, task_id=task_id)]

    def _give_trials(self, client: str) -> list[Command]:
        at_work = {order.task_id for order in self.assignments.values() if order is not None}
        waiting = {
            task_id
            for task_id in self.ledger.entries
            if task_id not in at_work and self._batch_of(task_id)
        }
        progresses = {task_id: self.ledger.entries[task_id].progress for task_id in waiting}
        shard = waiting.intersection(self.shards.get(client, ()))
        own = next_task(progresses.values(), shard, self._begun_by)
        any_task = next_task(progresses.values(), waiting, self._begun_by)
        if any_task is None:
            return []
        if own is None or _promises_more(progresses[any_task], progresses[own]):
            own = any_task
            self._move(any_task, client)
        trials = self._batch_of(own)
        order = self._assign(client, own, trials)
        return [GiveTrials(client=client, order_id=order, task_id=own, trials=trials)]

    def _move(self, task_id: str, client: str) -> None:
        shards = {
            owner: tuple(task for task in tasks if task != task_id)
            for owner, tasks in self.shards.items()
        }
        shards[client] = (*shards.get(client, ()), task_id)
        self.shards = shards

    def _give_final(self, client: str) -> list[Command]:
        for task_id, entry in self.ledger.entries.items():
            candidates = () if task_id in self.behind else entry.finalists()
            if candidates and not entry.finals_tried and entry.failure is None:
                entry.finals_tried = True
                order = self._assign(client, task_id, 0)
                return [
                    GiveFinal(client=client, order_id=order, task_id=task_id, candidates=candidates)
                ]
        can_compare = self._limits.compares and self._has_gained
        self.phase = Phase.COMPARE if can_compare else Phase.DONE
        return []

    @property
    def _has_gained(self) -> bool:
        unused = self.unused
        return any(e.gained for task, e in self.ledger.entries.items() if task not in unused)

    def _give_comparison(self, client: str) -> list[Command]:
        if self._compare_tries == 2:
            self.phase = Phase.DONE
            return []
        self._compare_tries += 1
        order = self._assign(client, None, 0)
        return [GiveComparison(client=client, order_id=order)]

    def _assign(
        self, client: str, task_id: str | None, trials: int, *, retries: bool = False
    ) -> int:
        self._orders += 1
        self.assignments[client] = Assignment(
            order_id=self._orders, task_id=task_id, trials=trials, retries=retries
        )
        if task_id is not None:
            self.ledger.give(task_id, trials)
        return self._orders


def _promises_more(other: TaskProgress, own: TaskProgress) -> bool:
    """Whether a task is worth leaving the shard for: an untried one, or one that gains far more."""
    if min(other.trials, own.trials) == 0:
        return own.trials > 0
    return gain(other) > _WORTH_MOVING * gain(own)
