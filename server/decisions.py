"""What happens to a farm, and what it decides to do: the two sides of `FarmState.handle`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tune_farm.tuner.types import Candidate, Record

# Events ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientJoined:
    """A client is there and idle."""

    client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLost:
    """A client died, or gave no sign of life."""

    client: str
    broken: bool = False  # it said itself that it cannot work here: its task is not to blame


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordStored:
    """The journal holds a new record."""

    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderEnded:
    """A client finished an order and is idle."""

    client: str
    order_id: int
    proposed: int
    failure: str | None  # why its task can't be tuned


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelJudged:
    """The whole model was compared, or could not be."""

    client: str
    order_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOver:
    """The budget is used up."""


Event: TypeAlias = ClientJoined | ClientLost | RecordStored | OrderEnded | ModelJudged | SearchOver

# Commands --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveTrials:
    """Have a client tune a task."""

    client: str
    order_id: int
    task_id: str
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveRetry:
    """Have a client try again all that failed of a task."""

    client: str
    order_id: int
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveFinal:
    """Have a client measure a task's best again; nobody else is at work meanwhile."""

    client: str
    order_id: int
    task_id: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveComparison:
    """Have a client build and time the whole model."""

    client: str
    order_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrders:
    """Have every client end its order after the candidate in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartClient:
    """Start a successor in a lost client's slot."""

    client: str


Command: TypeAlias = (
    GiveTrials | GiveRetry | GiveFinal | GiveComparison | StopOrders | RestartClient
)
