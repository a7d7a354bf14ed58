"""The farm's hands: a Ray cluster with one actor a slot. Decides nothing."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray

from tune_farm.client.actor import start_client
from tune_farm.client.agent import AgentOptions
from tune_farm.client.messages import Message, Order
from tune_farm.server.lanes import lane, lanes
from tune_farm.tuner.errors import EnvironmentUnusableError

_LOG = logging.getLogger(__name__)

#: How long a client keeps an exchange open when it has no news. Bounds how long an order or a stop
#: waits that was decided meanwhile.
_WAIT_SECONDS = 0.4
#: A client that does not answer for so long is taken for dead.
_SILENCE_SECONDS = 60.0
_OBJECT_STORE_BYTES = 100 * 1024**2  # messages are small; the default would take a third of memory


@dataclass(slots=True)
class _Line:
    """The connection to one client. Written by `Farm` alone."""

    actor: Any
    pending: Any = None  #: the exchange that is open
    asked: float = 0.0  #: monotonic time at which it was opened
    acknowledged: int = -1  #: last sequence number that the journal covers
    seen: int = -1  #: last sequence number handed on
    joined: bool = False  #: it has answered once
    orders: list[Order] = field(default_factory=list)  #: to go with the next exchange


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A client answered for the first time."""

    client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A client said something new."""

    client: str
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A client is gone; its actor was ended."""

    client: str
    reason: str


News = Joined | Said | Lost


class Farm:
    """Starts and ends the cluster and its clients, and carries messages."""

    def __init__(self, options: Mapping[str, AgentOptions], *, address: str | None) -> None:
        """Prepare; nothing runs before `start`.

        Args:
            options: what each client is made with, by client.
            address: a Ray cluster to join, or None for a private one.
        """
        self._options = dict(options)
        self._address = address
        self._lines: dict[str, _Line] = {}
        self._stopping = False
        self.dashboard_url: str | None = None

    def start(self, temp_dir: Path) -> None:
        """Start or join the cluster, then all clients; returns before these are ready.

        Must run in the main thread: Ray's daemons die with the thread that started them.
        """
        if self._address is None:
            # Ray would run clients, and with them every timing, at niceness 15: behind anything
            # else on the machine.
            os.environ.setdefault("RAY_worker_niceness", "0")
            # Without an address Ray joins whatever cluster a file in the temp folder names.
            context = _init(
                address="local",
                _temp_dir=str(temp_dir),
                num_cpus=len(self._options),
                resources=lanes(options.slot for options in self._options.values()),
                object_store_memory=_OBJECT_STORE_BYTES,
                include_dashboard=True,
                dashboard_host="127.0.0.1",
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        else:
            context = _init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
        url = context.dashboard_url
        self.dashboard_url = f"http://{url}" if url else None
        for client in self._options:
            self.start_client(client)

    def start_client(self, client: str) -> None:
        """Start the client of a slot; the slot must be empty."""
        assert client not in self._lines, client
        node = ray.get_runtime_context().get_node_id()
        options = self._options[client]
        # A cluster that was there before knows nothing of our devices.
        books = lane(options.slot) if self._address is None else {}
        self._lines[client] = _Line(start_client(options, node_id=node, resources=books))

    @property
    def clients(self) -> tuple[str, ...]:
        """Clients that were started and not lost."""
        return tuple(self._lines)

    def order(self, client: str, order: Order) -> None:
        """Send an order with the client's next exchange."""
        self._stopping = False
        self._lines[client].orders.append(order)

    def stop_orders(self) -> None:
        """Have all clients end their order early, until the next order is sent."""
        self._stopping = True

    def acknowledge(self, client: str, sequence: int) -> None:
        """Tell a client that everything up to `sequence` is stored."""
        if client in self._lines:
            self._lines[client].acknowledged = sequence

    def poll(self, timeout_seconds: float) -> Iterator[News]:
        """Yield what clients have to say, waiting for the first news at most so long."""
        for client, line in list(self._lines.items()):
            if line.pending is None:
                self._open(line)
            elif time.monotonic() - line.asked > _SILENCE_SECONDS:
                yield self.lose(client, f"no answer for {_SILENCE_SECONDS:.0f} s")
        owners = {line.pending: client for client, line in self._lines.items()}
        if not owners:
            time.sleep(timeout_seconds)
            return
        ready, _ = ray.wait(list(owners), num_returns=1, timeout=timeout_seconds)
        for reference in ready:
            yield from self._take(owners[reference])

    def close(self) -> None:
        """End all clients, and the cluster unless it was joined; safe to call twice."""
        for line in self._lines.values():
            ray.kill(line.actor, no_restart=True)
        self._lines = {}
        if ray.is_initialized():
            ray.shutdown()

    def _open(self, line: _Line) -> None:
        orders, line.orders = tuple(line.orders), []
        line.pending = line.actor.exchange.remote(
            line.acknowledged, orders, self._stopping, _WAIT_SECONDS
        )
        line.asked = time.monotonic()

    def _take(self, client: str) -> Iterator[News]:
        line = self._lines[client]
        try:
            messages = ray.get(line.pending)
        except ray.exceptions.RayError as error:
            yield self.lose(client, _cause(error))
            return
        line.pending = None
        if not line.joined:
            line.joined = True
            yield Joined(client=client)
        for message in messages:
            # What was handed on already is stored or about to be: it came again because its
            # acknowledgement had not left yet.
            if message.sequence > line.seen:
                line.seen = message.sequence
                yield Said(client=client, message=message)

    def lose(self, client: str, reason: str) -> Lost:
        """End a client that is gone or of no more use."""
        _LOG.warning("%s is gone: %s", client, reason)
        ray.kill(self._lines.pop(client).actor, no_restart=True)
        return Lost(client=client, reason=reason)


def _cause(error: ray.exceptions.RayError) -> str:
    """One line: what the client's own code raised, or else what Ray says of it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = "creation task" in lines[0] or isinstance(error, ray.exceptions.RayTaskError)
    return lines[-1 if raised else 0][:500]


def _init(**how: Any) -> Any:
    try:
        return ray.init(**how)
    except SystemExit as end:
        # Ray answers SIGTERM with the signal's bare number as the exit code.
        raise SystemExit(128 + signal.SIGTERM if end.code == signal.SIGTERM else end.code) from None
    except Exception as error:
        # A bare Exception after 30 s on a busy machine, a ConnectionError where no cluster is.
        lines = str(error).strip().splitlines()
        reason = lines[0] if lines else type(error).__name__
        remedy = "check --address" if how["address"] != "local" else "run less beside it, try again"
        raise EnvironmentUnusableError(f"Ray did not start: {reason[:200]}", remedy) from error
