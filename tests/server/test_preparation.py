"""A model without a task says why, and what would help."""

from __future__ import annotations

import pytest

from tune_farm.server.preparation import _select
from tune_farm.sharding.extract import Extraction, Skipped, Untunable
from tune_farm.tuner.errors import UsageError

SKIPPED = Skipped(name="dense", weight=1, reason="its size depends on N", remedy="--shape N=…")
UNTUNABLE = Untunable(name="sort", kind="runtime", weight=1, reason="a library does it")


@pytest.mark.parametrize(
    ("extraction", "says"),
    [
        (
            Extraction(tasks=(), untunable=(UNTUNABLE,), skipped=(SKIPPED,)),
            "no operator can be tuned: dense: its size depends on N; --shape N=…",
        ),
        (
            Extraction(tasks=(), untunable=(UNTUNABLE,), skipped=()),
            "no operator can be tuned: sort: a library does it",
        ),
        (
            Extraction(tasks=(), untunable=(), skipped=()),
            "the model has no operator; give one that computes something",
        ),
    ],
)
def test_nothing_to_tune(extraction: Extraction, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        _select(extraction, None)

    assert str(refused.value) == says
