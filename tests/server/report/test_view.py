"""What is left of a budget, and how long it will take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tune_farm.server.report.view import Progress

PROGRESS = Progress(
    phase="search",
    elapsed_seconds=30.0,
    budget_seconds=None,
    measured=8,
    pruned=100,
    failed=(("run_error", 2),),
    tasks=(),
    clients=(),
)


def test_without_a_budget_nothing_is_promised() -> None:
    assert PROGRESS.fraction is None
    assert PROGRESS.eta_seconds is None


def test_budget_of_time() -> None:
    timed = replace(PROGRESS, budget_seconds=120.0)
    assert timed.fraction == pytest.approx(0.25)
    assert timed.eta_seconds == pytest.approx(90.0)
    late = replace(timed, elapsed_seconds=130.0)
    assert (late.fraction, late.eta_seconds) == (1.0, 0.0)


def test_nearer_limit_counts() -> None:
    both = replace(PROGRESS, budget_seconds=1000.0, budget_trials=20)
    assert both.fraction == pytest.approx(0.5)
    assert both.eta_seconds == pytest.approx(30.0)
    assert replace(both, measured=0, failed=()).eta_seconds == pytest.approx(970.0)


def test_the_latest_pace_counts_and_not_that_since_the_beginning() -> None:
    counted = replace(PROGRESS, budget_trials=30, elapsed_seconds=100.0)
    assert counted.eta_seconds == pytest.approx(200.0)
    assert replace(counted, pace_seconds=2.0).eta_seconds == pytest.approx(40.0)


def test_after_the_search_nothing_is_left_of_its_budget() -> None:
    assert replace(PROGRESS, phase="finals", budget_trials=30).eta_seconds is None
