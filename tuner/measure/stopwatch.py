"""Times one loaded operator: repeats with their spread, and an early stop for losers."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tune_farm.tuner.measure.messages import Timing
from tune_farm.tuner.types import Failed, Fault, Measured, Outcome

#: A call this many times longer than a repeat is timed one call a repeat, from outside: the
#: evaluator's untimed extra call would cost more than it steadies.
_LONG = 5.0
#: Field of /proc/self/task/*/stat with the core that a thread last ran on (proc(5), from 0).
_PROCESSOR_FIELD = 38


class Stopwatch:
    """Times `module`'s `main` on given arguments, which have been through one call already."""

    def __init__(self, module: Any, arguments: Sequence[Any], device: Any) -> None:
        self._module = module
        self._arguments = arguments
        self._device = device  #: TVM's; a GPU is timed by its own clock

    def time(self, timing: Timing, incumbent_seconds: float | None, cores: set[int]) -> Outcome:
        """Time the operator.

        Args:
            timing: how often and how long.
            incumbent_seconds: the best so far, or None: then nothing is stopped early.
            cores: gets the cores that this process's threads were seen on.
        """
        first = self._call_seconds()
        number = max(1, math.ceil(timing.repeat_seconds / max(first, 1e-9)))
        is_long = first > _LONG * timing.repeat_seconds
        repeats = [first] if is_long else self._evaluate(number, 1)
        cores |= cores_of_threads()
        limit = math.inf if incumbent_seconds is None else timing.stop_ratio * incumbent_seconds
        stopped_early = repeats[0] > limit and timing.repeats > 1
        if not stopped_early:
            remaining = timing.repeats - 1
            if is_long:
                repeats += [self._call_seconds() for _ in range(remaining)]
            elif remaining:
                repeats += self._evaluate(number, remaining)
            cores |= cores_of_threads()
        if not all(0.0 < seconds < math.inf for seconds in repeats):
            return Failed(fault=Fault.BAD_TIMING, detail=f"timed as {repeats} s")
        return Measured(repeats_seconds=tuple(repeats), stopped_early=stopped_early)

    def _evaluate(self, number: int, repeat: int) -> list[float]:
        evaluator = self._module.time_evaluator("main", self._device, number=number, repeat=repeat)
        return [float(seconds) for seconds in evaluator(*self._arguments).results]

    def _call_seconds(self) -> float:
        function = self._module["main"]
        self._device.sync()
        started = time.perf_counter()
        function(*self._arguments)
        self._device.sync()
        return time.perf_counter() - started


def cores_of_threads() -> set[int]:
    """The cores on which this process's threads last ran."""
    seen = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            stat = (task / "stat").read_text()
        except OSError:
            continue  # the thread ended meanwhile
        # The command name, in parentheses, may hold spaces: count fields behind it.
        seen.add(int(stat.rpartition(")")[2].split()[_PROCESSOR_FIELD - 2]))
    return seen
