"""Builds nothing: writes down how long a candidate takes on a simulated GPU; the child acts it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tune_farm.client.sim.truth import Truth, deviation
from tune_farm.tuner.interfaces import Artifact, BuildFailure
from tune_farm.tuner.types import Candidate, Task


class SimulatedBuilder:
    """Implements `interfaces.Builder`, as `BuildPool` does; in this process."""

    def __init__(
        self, truth: Truth, *, fault_rate: float, scratch: Path, should_stop: Callable[[], bool]
    ) -> None:
        self._truth = truth
        self._fault_rate = fault_rate
        self._scratch = scratch
        self._should_stop = should_stop
        self._task: Task | None = None
        self._written = 0

    def select(self, task: Task) -> None:
        """Name the task that the next `build` calls are about."""
        self._task = task

    def build(self, candidates: Sequence[Candidate]) -> Iterator[Artifact | BuildFailure]:
        """Yield one answer a candidate of the selected task."""
        assert self._task is not None
        for candidate in candidates:
            if self._should_stop():
                return
            started = time.monotonic()
            seconds = self._truth.seconds(self._task, candidate)
            self._written += 1
            path = self._scratch / f"simulated-{self._written}.json"
            path.write_text(json.dumps({"seconds": seconds, "faults": self._faults(candidate)}))
            yield Artifact(candidate=candidate, path=path, build_seconds=time.monotonic() - started)

    def close(self) -> None:
        """Nothing runs."""

    def _faults(self, candidate: Candidate) -> bool:
        """Whether it is one of those that fault: the same ones in every run."""
        if candidate.is_untuned:
            return False
        place = (deviation(f"fault {candidate.id}") * 1e6) % 1.0
        return place < self._fault_rate
