"""Long operators are timed call by call, and a clock that stands still is no measurement."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tvm

from tests.tuner.operators import export, from_text, loop
from tune_farm.tuner.measure.messages import Timing
from tune_farm.tuner.measure.stopwatch import Stopwatch, cores_of_threads
from tune_farm.tuner.types import Failed, Fault, Measured


class CountedModule:
    """Counts the calls of an operator, and gives the evaluator's numbers as told."""

    def __init__(self, evaluated: tuple[float, ...] = ()) -> None:
        self.calls = 0
        self._evaluated = evaluated

    def __getitem__(self, name: str) -> Callable[[], None]:
        return self._call

    def _call(self) -> None:
        self.calls += 1

    def time_evaluator(self, *_: object, repeat: int, **__: object) -> Callable[[], Any]:
        return lambda: SimpleNamespace(results=[self._evaluated[0]] * repeat)


def test_an_operator_longer_than_a_repeat_is_called_once_a_repeat() -> None:
    module = CountedModule()

    outcome = Stopwatch(module, (), tvm.cpu()).time(
        Timing(repeats=4, repeat_seconds=1e-12), None, set()
    )

    assert isinstance(outcome, Measured)
    assert module.calls == len(outcome.repeats_seconds) == 4


def test_a_long_loser_is_called_once() -> None:
    module = CountedModule()

    outcome = Stopwatch(module, (), tvm.cpu()).time(Timing(repeat_seconds=1e-12), 1e-12, set())

    assert isinstance(outcome, Measured)
    assert outcome.stopped_early
    assert module.calls == 1


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_times_are_no_measurement(seconds: float) -> None:
    outcome = Stopwatch(CountedModule((seconds,)), (), tvm.cpu()).time(
        Timing(repeats=2), None, set()
    )

    assert isinstance(outcome, Failed)
    assert outcome.fault is Fault.BAD_TIMING
    assert str(seconds) in outcome.detail


def test_a_real_operator_is_timed_on_the_cores_it_ran_on(tmp_path: Path) -> None:
    library = export(from_text(loop("copy", "B[v] = A[v]")), tmp_path / "copy.so")
    arguments = [tvm.runtime.tensor(np.zeros(64, "float32"), tvm.cpu()) for _ in range(2)]
    cores: set[int] = set()

    outcome = Stopwatch(tvm.runtime.load_module(str(library)), arguments, tvm.cpu()).time(
        Timing(repeats=2, repeat_seconds=1e-4), None, cores
    )

    assert isinstance(outcome, Measured)
    assert all(0 < seconds < 1e-3 for seconds in outcome.repeats_seconds)
    assert cores
    assert cores_of_threads() <= set(range(os.cpu_count() or 1))
