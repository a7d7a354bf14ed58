"""The server's loop: hears clients, stores what they learned, and does what the state decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tune_farm.client.messages import (
    ClientBroken,
    CompareOrder,
    Comparison,
    FinalOrder,
    ModelCompared,
    ModelFailed,
    ModelJob,
    OrderDone,
    RecordKnown,
    RetryOrder,
    TuneOrder,
)
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
from tune_farm.server.events import PRUNED, EventLog
from tune_farm.server.failures import FailureLog
from tune_farm.server.farm import Farm, Joined, Lost, News, Said
from tune_farm.server.interrupts import Interrupts
from tune_farm.server.state import FarmState, Phase
from tune_farm.tuner.errors import EnvironmentUnusableError
from tune_farm.tuner.interfaces import Pruned
from tune_farm.tuner.predictor.lessons import Lesson
from tune_farm.tuner.records.journal import Journal
from tune_farm.tuner.records.query import still_failed
from tune_farm.tuner.types import Failed, Fault, Record, Task

_POLL_SECONDS = 0.25
#: The budget's clock starts with the first candidate, and at last so long after the first order.
_LONGEST_WARM_UP_SECONDS = 60.0
#: How long a measurement in flight may still take after Ctrl-C.
_LAST_WORDS_SECONDS = 1.5


@dataclass(slots=True)
class Search:
    """One session of a run, from the first order to the last record."""

    state: FarmState
    farm: Farm
    journal: Journal
    events: EventLog
    failures: FailureLog
    tasks: dict[str, Task]
    budget_seconds: float | None
    make_job: Callable[[], ModelJob]  # exports what a comparison needs
    show: Callable[[Search], None]  # draws the screen
    #: Keeps what clients learned for later runs.
    keep: Callable[[Iterable[Lesson], Mapping[str, Task]], None] = lambda _lessons, _tasks: None
    comparison: Comparison | None = None
    comparison_failure: str | None = None
    earlier: int = field(init=False, default=0)  #: records of earlier sessions
    pruned: Pruned = field(default_factory=Pruned)  #: drafts, all sessions of the run together
    broken: str | None = None  #: what the last broken client died of
    stage_seconds: dict[str, float] = field(default_factory=dict)  #: by phase
    _records: dict[str, list[Record]] = field(default_factory=dict)  #: by task
    _ordered: float | None = None  #: monotonic time of the first order
    _started: float | None = None  #: monotonic time at which the first candidate was begun
    _ended: float | None = None  #: monotonic time at which the last candidate was known
    _spent_before: float = 0.0  #: budget seconds of earlier sessions

    def __post_init__(self) -> None:
        self._spent_before = self.journal.spent_seconds
        self.earlier = len(self.journal.records)
        for record in self.journal.records:
            self._records.setdefault(record.candidate.task_id, []).append(record)

    @property
    def spent_seconds(self) -> float:
        """The budget's clock."""
        if self._started is None:
            return self._spent_before
        return self._spent_before + (self._ended or time.monotonic()) - self._started

    def run(self, interrupts: Interrupts) -> None:
        """Work until the state is done or a signal came.

        Raises:
            EnvironmentUnusableError: no client can work here, or the disk is full.
        """
        while self.state.phase is not Phase.DONE:
            phase, entered = self.state.phase, time.monotonic()
            self._hear_all(_POLL_SECONDS)
            if interrupts.received is not None:
                self._hear_last_words()
                return
            self._start_clock_anyway()
            searches = self.state.phase is Phase.SEARCH and not self.state.is_retrying
            if searches and self._budget_is_over:
                self._decide(SearchOver())
            if not self.farm.clients:
                raise EnvironmentUnusableError(
                    f"no client can work here: {self.broken or 'all were lost'}",
                    "see 'tune-farm doctor'",
                )
            spent = time.monotonic() - entered
            self.stage_seconds[phase.value] = self.stage_seconds.get(phase.value, 0.0) + spent
            self.show(self)

    def _start_clock_anyway(self) -> None:
        """Begin to count, however long workers take to warm up."""
        waited = 0.0 if self._ordered is None else time.monotonic() - self._ordered
        if self._started is None and waited > _LONGEST_WARM_UP_SECONDS:
            self._started = time.monotonic()

    @property
    def _budget_is_over(self) -> bool:
        return self.budget_seconds is not None and self.spent_seconds >= self.budget_seconds

    def _hear_all(self, timeout_seconds: float) -> None:
        for news in self.farm.poll(timeout_seconds):
            self._hear(news)

    def _hear_last_words(self) -> None:
        self.farm.stop_orders()
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        while time.monotonic() < deadline and any(self.state.assignments.values()):
            for news in self.farm.poll(0.1):
                if isinstance(news, Said):
                    if isinstance(news.message.payload, RecordKnown):
                        self._store(news.message.payload.record)
                    elif isinstance(news.message.payload, OrderDone):
                        self.keep(news.message.payload.lessons, self.tasks)
                        self.state.assignments[news.client] = None
                elif isinstance(news, Lost):
                    self.state.assignments.pop(news.client, None)

    def _hear(self, news: News) -> None:
        if isinstance(news, Joined):
            self.events.append("client_joined", client=news.client)
            self._decide(ClientJoined(client=news.client))
        elif isinstance(news, Lost):
            self.broken = news.reason
            self.events.append("client_lost", client=news.client, reason=news.reason)
            self._decide(ClientLost(client=news.client))
        else:
            self._listen(news)
            self.farm.acknowledge(news.client, news.message.sequence)

    def _listen(self, said: Said) -> None:
        client, payload = said.client, said.message.payload
        if isinstance(payload, RecordKnown):
            self._store(payload.record)
        elif isinstance(payload, OrderDone):
            if payload.failure is not None:
                self.events.append("task_failed", client=client, reason=payload.failure)
            self._decide(
                OrderEnded(
                    client=client,
                    order_id=payload.order_id,
                    proposed=payload.proposed,
                    failure=payload.failure,
                )
            )
            self._count_pruned(payload)
            self.keep(payload.lessons, self.tasks)
        elif isinstance(payload, ClientBroken):
            self.broken = payload.detail.strip().splitlines()[0]
            lost = self.farm.lose(client, payload.detail)
            self.events.append("client_lost", client=client, reason=lost.reason)
            self._decide(ClientLost(client=client, broken=True))
        else:
            self._judge(client, payload)

    def _count_pruned(self, done: OrderDone) -> None:
        self.pruned += done.pruned
        counts = {
            Fault.PRUNED_STATIC: done.pruned.over_limit,
            Fault.PRUNED_PREDICTED: done.pruned.predicted_slow,
        }
        for fault, count in counts.items():
            if count:
                self.events.append(PRUNED, fault=fault.value, count=count)

    def _judge(self, client: str, payload: ModelCompared | ModelFailed) -> None:
        if isinstance(payload, ModelCompared):
            self.comparison = payload.comparison
        else:
            self.comparison_failure = payload.detail
            self.events.append("comparison_failed", client=client, detail=payload.detail)
        self._decide(ModelJudged(client=client, order_id=payload.order_id))

    def _store(self, record: Record) -> None:
        if not self.journal.append(record, spent_seconds=self.spent_seconds):
            return  # said before, by this client or its predecessor
        self._records.setdefault(record.candidate.task_id, []).append(record)
        if self._started is None and self._ended is None:
            stages = record.stage_seconds
            self._started = time.monotonic() - stages.build - stages.check - stages.measure
        if isinstance(record.outcome, Failed):
            self.failures.add(
                record.outcome,
                task_name=self.tasks[record.candidate.task_id].name,
                candidate_id=record.candidate.id,
                client=record.client,
            )
        self._decide(RecordStored(record=record))

    def _decide(self, event: Event) -> None:
        phase = self.state.phase
        commands = self.state.handle(event)
        if self.state.phase is not phase:
            self.events.append("phase", phase=self.state.phase.value)
            if self.state.phase not in (Phase.SEARCH, Phase.DRAIN) and self._ended is None:
                self._ended = time.monotonic()
        self._do(commands)

    def _do(self, commands: Iterable[Command]) -> None:
        for command in commands:
            match command:
                case GiveTrials() | GiveRetry() | GiveFinal():
                    self._give(command)
                case GiveComparison(client=client, order_id=order_id):
                    self.farm.order(client, CompareOrder(order_id=order_id, job=self.make_job()))
                case StopOrders():
                    self.farm.stop_orders()
                case RestartClient(client=client):
                    self.farm.start_client(client)

    def _give(self, command: GiveTrials | GiveRetry | GiveFinal) -> None:
        task = self.tasks[command.task_id]
        known = tuple(self._records.get(task.id, ()))
        if isinstance(command, GiveFinal):
            self.farm.order(
                command.client,
                FinalOrder(
                    order_id=command.order_id,
                    task=task,
                    candidates=command.candidates,
                    known=known,
                ),
            )
            return
        if self._ordered is None:
            self._ordered = time.monotonic()
        if isinstance(command, GiveRetry):
            failed = tuple(still_failed(known).get(task.id, ()))
            self.events.append("retry", client=command.client, task=task.name, count=len(failed))
            self.farm.order(
                command.client,
                RetryOrder(order_id=command.order_id, task=task, failed=failed, known=known),
            )
            return
        self.events.append("order", client=command.client, task=task.name, trials=command.trials)
        self.farm.order(
            command.client,
            TuneOrder(order_id=command.order_id, task=task, trials=command.trials, known=known),
        )
