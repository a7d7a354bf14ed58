"""The Ray shell around an agent: one thread works, one method talks."""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tune_farm.client.agent import Agent, AgentOptions
from tune_farm.client.messages import ClientBroken, Message, Order
from tune_farm.client.outbox import Outbox

#: How soon an idle client sees that a device was broken.
_REST_SECONDS = 0.5


class Client:
    """Runs an agent in a thread of its own; the server talks to it by `exchange` alone."""

    def __init__(self, options: AgentOptions) -> None:
        self._options = options
        self._outbox = Outbox()
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._stop = threading.Event()  #: set: end the current order after the candidate in flight
        self._thread = threading.Thread(target=self._work, name=options.slot.name, daemon=True)
        self._thread.start()

    def exchange(
        self, acknowledged: int, orders: tuple[Order, ...], stop: bool, wait_seconds: float
    ) -> tuple[Message, ...]:
        """Take orders and acknowledgements; return what is not acknowledged yet.

        Args:
            acknowledged: the last sequence number that the server has stored.
            orders: new orders, done one after the other.
            stop: end the current order early; new orders are taken again once this is False.
            wait_seconds: how long to wait for news.
        """
        self._outbox.acknowledge(acknowledged)
        if stop:
            self._stop.set()
        else:
            self._stop.clear()
        for order in orders:
            self._orders.put(order)
        return self._outbox.wait(wait_seconds)

    def close(self) -> None:
        """End the agent and all its processes."""
        self._stop.set()
        self._orders.put(None)
        self._thread.join()

    def _next_order(self, agent: Agent) -> Order | None:
        while True:
            try:
                return self._orders.get(timeout=_REST_SECONDS)
            except queue.Empty:
                agent.rest()

    def _work(self) -> None:
        agent: Agent | None = None
        try:
            agent = Agent(self._options, self._stop.is_set)
            while (order := self._next_order(agent)) is not None:
                for payload in agent.perform(order):
                    self._outbox.put(payload)
        except Exception as error:  # noqa: BLE001 - the top of this process's work: report and end
            # The cause comes first: it is all that most people see.
            cause = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
            self._outbox.put(ClientBroken(detail=cause))
        finally:
            if agent is not None:
                agent.close()


def start_client(
    options: AgentOptions, *, node_id: str, resources: Mapping[str, float] = MappingProxyType({})
) -> Any:
    """Start a client as a Ray actor on a node; returns its handle at once.

    Which cores and which part of a device it uses is fixed by its slot, whatever Ray's books say.

    Args:
        options: what it is made with.
        node_id: Ray's.
        resources: what it takes from Ray's books.
    """
    actor = ray.remote(Client).options(
        num_cpus=0,
        num_gpus=0,
        resources=dict(resources),
        max_restarts=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node_id, soft=False),
    )
    return actor.remote(options)
