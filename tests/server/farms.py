"""Small farms to decide about."""

from __future__ import annotations

from collections.abc import Sequence

from tests.tuner.records_of import plain_task
from tune_farm.server.ledger import Ledger
from tune_farm.server.state import FarmState, Limits


def farm(
    tasks: Sequence[str] = ("a", "b"), *, retries: Sequence[str] = (), **limits: object
) -> FarmState:
    """A farm with nobody there; the first task is the costliest."""
    costs = {task_id: float(len(tasks) - number) for number, task_id in enumerate(tasks)}
    ledger = Ledger([plain_task(task_id) for task_id in tasks], ())
    all_limits = {"batch": 16, "first_batch": 16} | limits
    return FarmState(
        ledger,
        costs,
        Limits(**all_limits),  # type: ignore[arg-type]
        retries=retries,
    )
