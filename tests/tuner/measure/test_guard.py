"""A child is let in, sent away for good, or born again while the device recovers."""

from __future__ import annotations

import itertools
from typing import cast

import pytest

from tune_farm.tuner.children.spawn import Child
from tune_farm.tuner.measure import guard as guards
from tune_farm.tuner.measure.guard import NoGuard, NotYetError, welcome


class Door(NoGuard):
    """Answers with each error once, in turn, then lets children in."""

    def __init__(self, *answers: Exception) -> None:
        self._answers = list(answers)
        self.parted: list[object] = []

    def greet(self, child: Child) -> None:
        if self._answers:
            raise self._answers.pop(0)

    def part(self, child: Child) -> None:
        self.parted.append(child)


class Mother:
    """Bears children that are numbers."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def __call__(self) -> Child:
        return cast(Child, next(self._numbers))


def test_while_a_device_recovers_another_child_is_born(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "_RETRY_SECONDS", 0.0)
    door = Door(NotYetError(), NotYetError())

    assert welcome(door, Mother()) == cast(Child, 2)
    assert door.parted == [0, 1]


def test_a_device_that_does_not_recover_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "_RECOVERY_SECONDS", -1.0)
    not_yet = NotYetError()
    not_yet.__cause__ = OSError("the server is FAULT")
    door = Door(not_yet)

    with pytest.raises(OSError, match="is FAULT"):
        welcome(door, Mother())
    assert door.parted == [0]


def test_a_child_that_may_not_begin_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(PermissionError("another user's"))

    with pytest.raises(PermissionError):
        welcome(door, Mother())
    assert door.parted == [0]
