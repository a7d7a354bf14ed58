"""Waits for what the operating system does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def happens(condition: Callable[[], bool], within_seconds: float) -> bool:
    """Whether a condition comes true in time; returns as soon as it does."""
    deadline = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def is_gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
