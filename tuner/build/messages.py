"""What a build pool and its workers say to each other."""

from __future__ import annotations

from dataclasses import dataclass

from tune_farm.tuner.types import KernelUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReady:
    """Worker → pool: start-up is over; limits count from here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildJob:
    """Pool → worker: compile one candidate."""

    task_id: str
    module_json: str | None  # None: this worker has seen the task already
    target_json: str
    trace_json: str
    library: str  # path of the shared library to write
    candidate_id: str
    claims: str  # folder where workers of a pool note what code they have built


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildDone:
    """Worker → pool: the library is there, or why not."""

    seconds: float
    error: str | None
    kernels: tuple[KernelUsage, ...] = ()  # of a GPU's code
    pruned: bool = False  # it was compiled, and is not worth a measurement: `error` tells why
