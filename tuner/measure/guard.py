"""What a device asks for while children measure on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from tune_farm.tuner.children.spawn import Child
from tune_farm.tuner.types import Clocks

#: A device that was broken takes no child until all that were on it are gone.
_RECOVERY_SECONDS = 15.0
_RETRY_SECONDS = 0.2


class NotYetError(Exception):
    """A child may not begin now, but may in a moment; the cause is chained."""


class Guard(Protocol):
    """Stands at both ends of a child's life, and between it and those beside it."""

    def greet(self, child: Child) -> None:
        """Let a new child begin, or raise why it may not.

        Raises:
            NotYetError: the device recovers; another child may begin in a moment.
        """
        ...

    def part(self, child: Child) -> None:
        """End a child, busy or not."""
        ...

    def turn(self, *, alone: bool, meanwhile: Callable[[], None]) -> AbstractContextManager[None]:
        """Wait until this client may use the device.

        Args:
            alone: until nobody else does.
            meanwhile: called again and again.
        """
        ...

    def clocks(self) -> Clocks | None:
        """The device's clocks now; None: nobody can say."""
        ...

    def disturb(self, cause: str, *, breaks: bool) -> None:
        """Tell the others that a child here was ended in the middle of its work.

        Args:
            cause: one line.
            breaks: none of the others' children can go on: it took the device down with it.
        """
        ...

    def disturbed_since(self, monotonic_seconds: float) -> str | None:
        """What the others told since then, the first of it; None: nothing."""
        ...

    def is_broken_since(self, monotonic_seconds: float) -> bool:
        """Whether one of the others took the device down since then."""
        ...


def welcome(guard: Guard, birth: Callable[[], Child]) -> Child:
    """A new child that may begin; while the device recovers, another is born again and again.

    Args:
        guard: of the device.
        birth: makes a child.

    Raises:
        Exception: whatever says why none may.
    """
    deadline = time.monotonic() + _RECOVERY_SECONDS
    while True:
        child = birth()
        try:
            guard.greet(child)
        except NotYetError as not_yet:
            guard.part(child)
            if time.monotonic() > deadline:
                raise (not_yet.__cause__ or not_yet) from None
            time.sleep(_RETRY_SECONDS)
        except BaseException:
            guard.part(child)
            raise
        else:
            return child


class NoGuard:
    """Of a CPU: nothing has to be asked, and a child may be killed at any time."""

    def greet(self, child: Child) -> None:
        """Let it begin."""

    def part(self, child: Child) -> None:
        """End it."""
        child.kill()

    def turn(self, *, alone: bool, meanwhile: Callable[[], None]) -> AbstractContextManager[None]:
        """At any time: the cores are this client's alone."""
        return nullcontext()

    def clocks(self) -> Clocks | None:
        """Each core has its own."""
        return None

    def disturb(self, cause: str, *, breaks: bool) -> None:
        """There is nobody to tell."""

    def disturbed_since(self, monotonic_seconds: float) -> str | None:
        """Processes on a CPU do not break each other."""
        return None

    def is_broken_since(self, monotonic_seconds: float) -> bool:
        """Nor its cores."""
        return False
