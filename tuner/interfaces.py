"""The seams of the tuning loop: who proposes, who builds, who measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from tune_farm.tuner.types import (
    Candidate,
    Clocks,
    Failed,
    KernelUsage,
    Outcome,
    Purpose,
    Record,
    StageSeconds,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A built candidate: a shared library on this machine."""

    candidate: Candidate
    path: Path
    build_seconds: float
    kernels: tuple[KernelUsage, ...] = ()  # of a GPU's code


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFailure:
    """A candidate that did not become an artifact."""

    candidate: Candidate
    failure: Failed
    build_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What one measurement gave."""

    outcome: Outcome
    cores_used: tuple[int, ...]
    stage_seconds: StageSeconds  # only `check` and `measure` are set
    clocks: Clocks | None = None  # of a GPU, right after


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A candidate to measure, and why."""

    candidate: Candidate
    purpose: Purpose
    predicted_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Drafts that were dropped before they became candidates; the journal never sees them."""

    over_limit: int = 0  # of the hardware, or refused by the compiler's own checks
    predicted_slow: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        return Pruned(
            over_limit=self.over_limit + other.over_limit,
            predicted_slow=self.predicted_slow + other.predicted_slow,
        )

    def __sub__(self, other: Pruned) -> Pruned:
        return Pruned(
            over_limit=self.over_limit - other.over_limit,
            predicted_slow=self.predicted_slow - other.predicted_slow,
        )


class Strategy(Protocol):
    """Proposes candidates of one task and learns from records (ask/tell); never sees the farm."""

    @property
    def pruned(self) -> Pruned:
        """What was dropped so far."""
        ...

    def propose(self, limit: int) -> Sequence[Proposal]:
        """Return at most `limit` candidates never proposed before; none ends the task."""
        ...

    def tell(self, records: Iterable[Record]) -> None:
        """Learn from records of this task; telling one twice is safe."""
        ...


class Builder(Protocol):
    """Compiles candidates; may not touch the device."""

    def build(self, candidates: Sequence[Candidate]) -> Iterator[Artifact | BuildFailure]:
        """Yield one answer a candidate, as each is ready, in any order."""
        ...


class Runner(Protocol):
    """Runs artifacts of one task under one share, one at a time."""

    def run(
        self, artifact: Artifact, *, incumbent_seconds: float | None, alone: bool = False
    ) -> RunReport:
        """Check the artifact's output, then time it; stop early far behind the incumbent.

        With `alone`, while no other client uses the device.
        """
        ...


#: What disturbed a reading, in one line, by all that is known when it is asked; None: nothing did.
Verdict: TypeAlias = Callable[[], str | None]


class Watch(Protocol):
    """Sees whether others are at work on the device."""

    def read(self, *, alone: bool) -> Verdict:
        """Look now; the runner may not be busy. With `alone`, as it runs alone."""
        ...
