"""What a child does before it ends because its parent died.

Kept apart from what it serves: that may be stuck in a call which never returns.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable

_LOCK = threading.Lock()
_acts: list[Callable[[], None]] = []


def add(act: Callable[[], None]) -> None:
    """Have something done in the end; it has to return within seconds."""
    _acts.append(act)


def perform() -> None:
    """Do it, once; a second thread that comes here waits for the first."""
    with _LOCK:
        while _acts:
            try:
                _acts.pop()()
            except Exception:  # noqa: BLE001 - whatever went wrong, this process ends now
                traceback.print_exc(file=sys.stderr)
