"""A farm whose clients do what a script says, without Ray."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from tests.tuner.records_of import candidate, plain_task, record_of
from tune_farm.client.messages import (
    CompareOrder,
    Comparison,
    FinalOrder,
    Message,
    ModelCompared,
    ModelFiles,
    ModelJob,
    Order,
    OrderDone,
    Payload,
    RecordKnown,
    RetryOrder,
)
from tune_farm.client.whole_model.agreement import Agreement
from tune_farm.server.farm import Joined, Lost, News, Said
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.records.journal import Journal
from tune_farm.tuner.types import Fault, Purpose

TASKS = [plain_task("a"), plain_task("b")]
JOB = ModelJob(
    given=ModelFiles(module="m", weights="n"),
    tuned=ModelFiles(module="p", weights="q"),
    database_workload="w",
    database_records="r",
    inputs=(),
    target_json="{}",
)
COMPARISON = Comparison(
    baseline_seconds=(2.0, 2.0),
    tuned_seconds=(1.0, 1.0),
    agreement=Agreement(wrong=None, max_relative_error=0.0, rounding_error=None),
)


def obey(order: Order) -> list[Payload]:
    """What a client says that does as it is told: it gains on every task."""
    if isinstance(order, CompareOrder):
        return [ModelCompared(order_id=order.order_id, comparison=COMPARISON)]
    if isinstance(order, FinalOrder):
        records = [record_of(each, 1e-3, purpose=Purpose.FINAL) for each in order.candidates]
    elif isinstance(order, RetryOrder):
        records = [
            record_of(each.candidate, 1e-4, purpose=each.purpose, attempt=each.attempt + 1)
            for each in order.failed
        ]
    else:
        records = []
        if not any(record.purpose is Purpose.BASELINE for record in order.known):
            records.append(record_of(untuned(order.task), 1.0, purpose=Purpose.BASELINE))
        for number in range(order.trials):
            each = candidate(len(order.known) + number, order.task.id)
            records.append(record_of(each, Fault.RUN_ERROR if number == 1 else 1e-3))
    said: list[Payload] = [RecordKnown(order_id=order.order_id, record=r) for r in records]
    return [*said, OrderDone(order_id=order.order_id, proposed=len(records), failure=None)]


class ScriptedFarm:
    """Clients in memory that answer an order at once, as `script` says; records come twice."""

    dashboard_url = None

    def __init__(self, journal: Journal) -> None:
        self.script: Callable[[Order], list[Payload]] = obey
        self.orders: list[Order] = []
        self.stops = 0
        self.news: deque[News] = deque()
        self._journal = journal
        self._present: dict[str, int] = {}  #: by client: messages so far
        self._said: dict[tuple[str, int], Payload] = {}

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(self._present)

    def start_client(self, client: str) -> None:
        assert client not in self._present
        self._present[client] = 0
        self.news.append(Joined(client=client))

    def order(self, client: str, order: Order) -> None:
        self.orders.append(order)
        for payload in self.script(order):
            self.say(client, payload)

    def say(self, client: str, payload: Payload) -> None:
        message = Message(sequence=self._present[client], payload=payload)
        self._present[client] += 1
        times = 2 if isinstance(payload, RecordKnown) else 1
        self.news += [Said(client=client, message=message)] * times
        self._said[client, message.sequence] = payload

    def stop_orders(self) -> None:
        self.stops += 1

    def acknowledge(self, client: str, sequence: int) -> None:
        payload = self._said[client, sequence]
        if isinstance(payload, RecordKnown):
            assert payload.record in self._journal.records, "acknowledged, but not stored"

    def poll(self, timeout_seconds: float) -> Iterator[News]:
        for _ in range(len(self.news)):
            news = self.news.popleft()
            if isinstance(news, Joined) or news.client in self._present:
                yield news

    def lose(self, client: str, reason: str) -> Lost:
        del self._present[client]
        return Lost(client=client, reason=reason)
