"""`events.jsonl`: what the farm did and when, for people and for reports; not needed to resume."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from tune_farm.tuner.interfaces import Pruned
from tune_farm.tuner.records.durable import write_error
from tune_farm.tuner.types import Fault

#: The tasks of the run: field `tasks`, a list of objects with id, name and weight.
TASKS = "tasks"
#: Drafts that were dropped unbuilt: fields `fault` and `count`.
PRUNED = "pruned"


class EventLog:
    """Appends events; lines are written whole but not synced, since losing the last is no harm."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """Open the file, after what an earlier run of the directory wrote.

        Args:
            path: the file.
            clock: gives Unix time.

        Raises:
            EnvironmentUnusableError: the file cannot be written.
        """
        self._path = path
        self._clock = clock
        try:
            self._file = path.open("ab", buffering=0)
            if _is_torn(path):
                self._file.write(b"\n")
        except OSError as error:
            raise write_error(error, path) from error

    def append(self, kind: str, **fields: object) -> None:
        """Write one event.

        Args:
            kind: what happened.
            fields: whatever JSON can hold, but `time` and `kind`.

        Raises:
            EnvironmentUnusableError: the disk is full.
        """
        line = json.dumps({"time": self._clock(), "kind": kind, **fields}, allow_nan=False)
        try:
            self._file.write(line.encode() + b"\n")
        except OSError as error:
            raise write_error(error, self._path) from error

    def close(self) -> None:
        """Close the file; closing twice is safe."""
        self._file.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a file; torn lines are left out, a missing file has none."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                item = json.loads(line)
            except ValueError:
                continue
            if isinstance(item, dict):
                yield item


def pruned_of(path: Path) -> Pruned:
    """Drafts that were dropped so far, by a file's events."""
    counts: Counter[str] = Counter()
    for event in read_events(path):
        if event.get("kind") == PRUNED:
            counts[event["fault"]] += event["count"]
    return Pruned(
        over_limit=counts[Fault.PRUNED_STATIC.value],
        predicted_slow=counts[Fault.PRUNED_PREDICTED.value],
    )


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"
