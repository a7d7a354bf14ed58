"""Marked processes that do nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tune_farm.tuner.children.mark import mark

Starter: TypeAlias = Callable[..., subprocess.Popen[bytes]]


@contextmanager
def sleepers(run_id: str) -> Iterator[Starter]:
    """Starts, within, processes that would sleep for long, or for so many seconds."""
    mark(run_id)
    started: list[subprocess.Popen[bytes]] = []

    def start(seconds: float = 600, **options: bool) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", str(seconds)], **options))  # type: ignore[call-overload]
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
