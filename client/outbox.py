"""Keeps what a client said until the server acknowledged it."""

from __future__ import annotations

import threading
from collections import deque

from tune_farm.client.messages import Message, Payload


class Outbox:
    """A numbered stream of payloads; thread-safe. Everything not acknowledged is sent again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._next = 0  #: sequence number of the next payload
        self._kept: deque[Message] = deque()  #: not acknowledged, in order
        self._offered = -1  #: highest sequence number handed out so far

    def put(self, payload: Payload) -> None:
        """Add a payload at the end of the stream."""
        with self._changed:
            self._kept.append(Message(sequence=self._next, payload=payload))
            self._next += 1
            self._changed.notify_all()

    def acknowledge(self, sequence: int) -> None:
        """Forget everything up to and including `sequence`; -1 forgets nothing."""
        with self._changed:
            while self._kept and self._kept[0].sequence <= sequence:
                self._kept.popleft()

    def wait(self, timeout_seconds: float) -> tuple[Message, ...]:
        """Return all that is not acknowledged, once there is something that was not yet offered."""
        with self._changed:
            self._changed.wait_for(lambda: self._next - 1 > self._offered, timeout_seconds)
            self._offered = self._next - 1
            return tuple(self._kept)
