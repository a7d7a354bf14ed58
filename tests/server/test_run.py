"""What a run ships."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tune_farm.server.run import _ships_tuned


@pytest.mark.parametrize(
    ("shipped", "comparison_failure", "ships"),
    [
        (None, None, True),  # nothing to compare with: a model that cannot run as a whole
        ("tuned", None, True),
        ("untuned", None, False),
        (None, "the tuned model does not build", False),
    ],
)
def test_a_model_that_fell_short_exports_no_schedule(
    shipped: str | None, comparison_failure: str | None, ships: bool
) -> None:
    summary: Any = SimpleNamespace(
        simulated=False, end_to_end=shipped and SimpleNamespace(shipped=shipped)
    )
    search: Any = SimpleNamespace(comparison_failure=comparison_failure)
    assert _ships_tuned(summary, search) is ships


def test_made_up_times_are_never_exported() -> None:
    summary: Any = SimpleNamespace(simulated=True, end_to_end=None)
    search: Any = SimpleNamespace(comparison_failure=None)

    assert not _ships_tuned(summary, search)
