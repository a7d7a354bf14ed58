"""What the farm and its clients say to each other, grouped by direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tune_farm.client.whole_model.agreement import Agreement
from tune_farm.tuner.interfaces import Pruned
from tune_farm.tuner.predictor.lessons import Lesson
from tune_farm.tuner.types import Candidate, Record, Task

# Server → client -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOrder:
    """Tune one task for some trials; its baseline is measured first where it is not known."""

    order_id: int
    task: Task
    trials: int
    known: tuple[Record, ...]  # the task's records so far, wherever they were measured


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOrder:
    """Build and measure again what failed; each as the search or audit that it was."""

    order_id: int
    task: Task
    failed: tuple[Record, ...]  # of different candidates
    known: tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalOrder:
    """Measure the best candidates of one task again, with more repeats, in turn."""

    order_id: int
    task: Task
    candidates: tuple[Candidate, ...]
    known: tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """One form of a model, by path on a shared disk."""

    module: str  # JSON
    weights: str  # .npz: the trailing parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelJob:
    """Everything that it takes to build and run the whole model, by path on a shared disk."""

    given: ModelFiles  # what a gain is measured against
    tuned: ModelFiles  # as the database's schedules are for; may be the same
    database_workload: str  # TVM's database of the best schedules
    database_records: str
    inputs: tuple[tuple[tuple[int, ...], str], ...]  # shape and dtype of the leading parameters
    target_json: str
    rounding: float = 1.0  # times a direct sum's errors that the tuned operators may have


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOrder:
    """Build the whole model tuned and untuned, compare outputs, and time both in turn."""

    order_id: int
    job: ModelJob


Order: TypeAlias = TuneOrder | RetryOrder | FinalOrder | CompareOrder

# Client → server -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKnown:
    """One outcome; the server acknowledges it once the journal holds it."""

    order_id: int
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderDone:
    """The client is idle again."""

    order_id: int
    proposed: int  # candidates that the strategy gave; 0 = the space is searched out
    failure: str | None  # why the task can't be tuned here at all, in one line first
    pruned: Pruned = Pruned()  # drafts that this order dropped
    lessons: tuple[Lesson, ...] = ()  # what measurements taught the predictor meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Tuned against untuned, end to end."""

    baseline_seconds: tuple[float, ...]  # paired with `tuned_seconds` in time
    tuned_seconds: tuple[float, ...]
    agreement: Agreement | None  # of the outputs; None: they were not compared


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCompared:
    """The answer to a `CompareOrder` that worked."""

    order_id: int
    comparison: Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBroken:
    """This client cannot work here at all: no worker starts, the share is not in force."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """The answer to a `CompareOrder` that did not: a build or a run failed."""

    order_id: int
    detail: str


Payload: TypeAlias = RecordKnown | OrderDone | ModelCompared | ModelFailed | ClientBroken


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A payload with its place in this client's stream; resent until acknowledged."""

    sequence: int
    payload: Payload
