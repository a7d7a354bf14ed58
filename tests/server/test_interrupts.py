"""The first signal is noted, later ones change nothing, and what was set before comes back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.tuner.waiting import happens
from tune_farm.server.interrupts import Interrupts


@pytest.fixture
def before() -> Iterator[list[int]]:
    """Signals that reach the handlers of whoever was there before."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    old = [signal.signal(number, lambda n, _: received.append(n)) for number in numbers]
    yield received
    for number, handler in zip(numbers, old, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_noted_and_ends_nothing(before: list[int], number: signal.Signals) -> None:
    with Interrupts() as interrupts:
        interrupts.hold()
        os.kill(os.getpid(), number)
        assert happens(lambda: interrupts.received is not None, 5.0)

    assert interrupts.received == number
    assert before == []


def test_the_first_signal_counts(before: list[int]) -> None:
    with Interrupts() as interrupts:
        interrupts.hold()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)

    assert interrupts.received == signal.SIGTERM
    assert before == []


def test_handlers_come_back_also_after_an_error(before: list[int]) -> None:
    def fail() -> None:
        with Interrupts() as interrupts:
            interrupts.hold()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    signal.raise_signal(signal.SIGINT)
    assert before == [signal.SIGINT]


def test_until_held_only_the_first_ctrl_c_raises(before: list[int]) -> None:
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)  # in the clean-up

    assert interrupts.received == signal.SIGINT
    assert before == []
