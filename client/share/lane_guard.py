"""Guards children on a device that clients share, where nothing else has to be asked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from tune_farm.client.share.lane import Lane
from tune_farm.tuner.children.spawn import Child
from tune_farm.tuner.types import Clocks


class LaneGuard:
    """Of the children of one slot; implements `tuner.measure.guard.Guard`."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def greet(self, child: Child) -> None:
        """Let it begin."""

    def part(self, child: Child) -> None:
        """End it."""
        child.kill()

    def turn(self, *, alone: bool, meanwhile: Callable[[], None]) -> AbstractContextManager[None]:
        """Wait until this client may use the device."""
        return self._lane.turn(alone=alone, meanwhile=meanwhile)

    def clocks(self) -> Clocks | None:
        """There is nobody to ask."""
        return None

    def disturb(self, cause: str, *, breaks: bool) -> None:
        """Tell the others what happened to a child here."""
        self._lane.disturb(cause, breaks=breaks)

    def disturbed_since(self, monotonic_seconds: float) -> str | None:
        """What the others told since then, the first of it."""
        return self._lane.disturbed_since(monotonic_seconds)

    def is_broken_since(self, monotonic_seconds: float) -> bool:
        """Whether one of the others took the device down since then."""
        return self._lane.is_broken_since(monotonic_seconds)
