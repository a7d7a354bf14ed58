"""Times the sentinels between measurements, and says what their times mean."""

from __future__ import annotations

import functools
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tune_farm.tuner.interfaces import Artifact, BuildFailure, Verdict
from tune_farm.tuner.measure.drift import QuietLevel, Reading, reading_of
from tune_farm.tuner.measure.messages import Timing
from tune_farm.tuner.measure.sentinels import sentinel_tasks
from tune_farm.tuner.types import UNTUNED_TRACE, Candidate, Failed, Fault, Outcome, Task

#: Several short repeats: what they differ by tells how far a reading can be trusted.
_TIMING = Timing(repeats=4, repeat_seconds=0.002)
#: The first readings of a client, and how far apart: a guest does not stay through all of them.
_FIRST = 8
_FIRST_PAUSE_SECONDS = 0.2
#: A sentinel that failed so often in a row says nothing of the device.
_MOST_FAILURES = 3

_log = logging.getLogger(__name__)


class SentinelBuilder(Protocol):
    """What `BuildPool` and its like have besides `interfaces.Builder`."""

    def select(self, task: Task) -> None:
        """Name the task that the next `build` calls are about."""
        ...

    def build(self, candidates: Sequence[Candidate]) -> Iterator[Artifact | BuildFailure]:
        """Yield one answer a candidate."""
        ...


class SentinelRunner(Protocol):
    """What `ChildRunner` has besides `interfaces.Runner`."""

    def time_sentinel(self, task: Task, library: Path, timing: Timing, *, alone: bool) -> Outcome:
        """Time a task without inputs; with `alone`, while no other client uses the device."""
        ...


@dataclass(slots=True, kw_only=True)
class _Sentinel:
    task: Task
    library: Path
    #: By whether it ran alone; none until its first readings.
    levels: dict[bool, QuietLevel] = field(default_factory=dict)
    failures: int = 0  #: since it last ran


class SentinelWatch:
    """Implements `interfaces.Watch` by three kernels; blind until they are built."""

    def __init__(
        self,
        builder: SentinelBuilder,
        runner: SentinelRunner,
        *,
        processors: int,
        cache_bytes: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin, blind.

        Args:
            builder: builds them, as it builds candidates.
            runner: times them, in the child that measures.
            processors: SMs of the share.
            cache_bytes: of the last cache; None: as the target says.
            clock: seconds, only forward.
            sleep: waits for so many of them.
        """
        self._builder = builder
        self._runner = runner
        self._processors = processors
        self._cache_bytes = cache_bytes
        self._clock = clock
        self._sleep = sleep
        self._sentinels: list[_Sentinel] | None = None  #: None: not built yet

    def prepare(self, target_json: str) -> None:
        """Build the sentinels for a target unless they are; the builder has to be idle.

        It selects tasks of its own. Told to stop meanwhile, it stays blind until the next call.
        """
        if self._sentinels is not None:
            return
        cache_bytes = self._cache_bytes or json.loads(target_json).get("l2_cache_size_bytes")
        if not cache_bytes:
            _log.warning("no sentinels: the target does not say how large the L2 cache is")
            self._sentinels = []
            return
        tasks = sentinel_tasks(
            target_json, processors=self._processors, cache_bytes=int(cache_bytes)
        )
        built, answers = [], 0
        for task in tasks:
            self._builder.select(task)
            untuned = Candidate(task_id=task.id, trace_json=UNTUNED_TRACE)
            for item in self._builder.build([untuned]):
                answers += 1
                if isinstance(item, Artifact):
                    built.append(_Sentinel(task=task, library=item.path))
                else:
                    cause = item.failure.detail.splitlines()[0]
                    _log.warning("no %s sentinel: it does not build: %s", task.name, cause)
        if answers == len(tasks):
            self._sentinels = built

    def read(self, *, alone: bool) -> Verdict:
        """Time each sentinel once; the first time of all, several times over a while."""
        sentinels = self._sentinels or []
        self._find_levels([each for each in sentinels if alone not in each.levels], alone)
        found = {each.task.name: self._time(each, alone) for each in sentinels}
        levels = {each.task.name: each.levels.get(alone) for each in sentinels}
        for name, reading in found.items():
            level = levels[name]
            if level is not None and isinstance(reading, Reading):
                level.add(reading)
        if self._sentinels is not None:
            self._sentinels = [each for each in sentinels if _runs(each)]
        return functools.partial(_cause, found, levels)

    def _find_levels(self, sentinels: Sequence[_Sentinel], alone: bool) -> None:
        first: dict[str, list[Reading]] = {each.task.name: [] for each in sentinels}
        for number in range(_FIRST if sentinels else 0):
            if number:
                self._sleep(_FIRST_PAUSE_SECONDS)
            for each in sentinels:
                if each.failures < _MOST_FAILURES:
                    reading = self._time(each, alone)
                    first[each.task.name] += [reading] if isinstance(reading, Reading) else []
        for each in sentinels:
            if first[each.task.name]:
                each.levels[alone] = QuietLevel(first[each.task.name])

    def _time(self, sentinel: _Sentinel, alone: bool) -> Reading | Failed:
        outcome = self._runner.time_sentinel(sentinel.task, sentinel.library, _TIMING, alone=alone)
        if isinstance(outcome, Failed):
            # What another client's fault took along is not the sentinel's doing.
            sentinel.failures += outcome.fault is not Fault.CONTENDED
            return outcome
        sentinel.failures = 0
        return reading_of(outcome.repeats_seconds, at_seconds=self._clock())


def _runs(sentinel: _Sentinel) -> bool:
    if sentinel.failures >= _MOST_FAILURES:
        _log.warning("no %s sentinel any more: it does not run", sentinel.task.name)
    return sentinel.failures < _MOST_FAILURES


def _cause(
    found: Mapping[str, Reading | Failed], levels: Mapping[str, QuietLevel | None]
) -> str | None:
    """What a reading says: the sentinel that is the furthest above its level, if one is."""
    worst, cause = 0.0, None
    for name, reading in found.items():
        level = levels[name]
        if level is None:
            continue
        if isinstance(reading, Failed):
            return f"the {name} sentinel failed: {reading.detail}"
        if level.is_loud(reading) and level.ratio(reading) > worst:
            worst = level.ratio(reading)
            cause = (
                f"others were at work on the device: the {name} sentinel took {worst:.2f} times "
                "its quiet time"
            )
    return cause
