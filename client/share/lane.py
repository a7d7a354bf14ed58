"""What the clients of one device agree on: who runs when, and what has disturbed whom.

Files in one folder are all they share: locks that end with their holder, however that dies, and a
list of disturbances in the clock that all processes of a machine have in common.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """One line of the list."""

    seconds: float  # of the monotonic clock
    client: str
    cause: str
    breaks: bool


class Lane:
    """One client's view of a device that others use, too."""

    def __init__(self, folder: Path, client: str) -> None:
        """Join.

        Args:
            folder: of the device; on this machine.
            client: this client's name.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._client = client
        #: Whoever waits to be alone holds the gate, so that nobody new comes in meanwhile.
        self._gate = folder / "gate"
        self._room = folder / "room"
        self._disturbances = folder / "disturbances.jsonl"
        self._theirs: list[_Told] = []
        self._read_bytes = 0  #: of the list

    @contextmanager
    def turn(self, *, alone: bool, meanwhile: Callable[[], None]) -> Iterator[None]:
        """Be in the room, with others or alone; `meanwhile` is called while waiting."""
        kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        with (
            _locked(self._gate, fcntl.LOCK_EX, meanwhile) as gate,
            _locked(self._room, kind, meanwhile),
        ):
            fcntl.flock(gate, fcntl.LOCK_UN)
            yield

    def disturb(self, cause: str, *, breaks: bool) -> None:
        """Tell the others what happened here just now."""
        told = _Told(seconds=time.monotonic(), client=self._client, cause=cause, breaks=breaks)
        descriptor = os.open(self._disturbances, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, f"{json.dumps(asdict(told))}\n".encode())  # whole, or not at all
        finally:
            os.close(descriptor)

    def disturbed_since(self, monotonic_seconds: float) -> str | None:
        """What the others told first since then, in words."""
        for told in self._told_since(monotonic_seconds):
            return f"{told.client} disturbed the device meanwhile: {told.cause}"
        return None

    def is_broken_since(self, monotonic_seconds: float) -> bool:
        """Whether one of the others took the device down since then."""
        return any(told.breaks for told in self._told_since(monotonic_seconds))

    def _told_since(self, monotonic_seconds: float) -> list[_Told]:
        try:
            with self._disturbances.open("rb") as stream:
                stream.seek(self._read_bytes)
                news = stream.read()
        except FileNotFoundError:
            return []
        self._read_bytes += len(news)
        found = [_Told(**json.loads(line)) for line in news.splitlines()]
        self._theirs += [told for told in found if told.client != self._client]
        return [told for told in self._theirs if told.seconds >= monotonic_seconds]


@contextmanager
def _locked(path: Path, kind: int, meanwhile: Callable[[], None]) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                meanwhile()
                time.sleep(_POLL_SECONDS)
        yield descriptor
    finally:
        os.close(descriptor)  # and with it the lock
