"""What a measuring child and its owner say to each other."""

from __future__ import annotations

from dataclasses import dataclass

from tune_farm.tuner.types import Outcome, TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How a candidate is timed."""

    repeats: int = 3
    repeat_seconds: float = 0.02  # a repeat runs the operator until this much time passed
    stop_ratio: float = 1.5  # slower than the best by this factor: stop after one repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildReady:
    """Child → owner: the runtime is loaded; the cores that the child may really use."""

    cores: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureJob:
    """Owner → child: check and time one library."""

    task_id: str
    arguments: tuple[TensorSpec, ...]
    reduction_length: int
    library: str
    reference: str  # .npz with the right outputs, by the job that makes it; "": of a sentinel, none
    checks: bool  # else it is run once before it is timed, and its output is anybody's guess
    makes_reference: bool  # this is the untuned operator: write the reference instead of checking
    timing: Timing | None  # None: do not time
    incumbent_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureDone:
    """Child → owner: the outcome; `outcome` is None for a job that was not timed."""

    outcome: Outcome | None
    cores_used: tuple[int, ...]
    check_seconds: float
    measure_seconds: float
    is_broken: bool = False  # this child can do nothing more on its device
