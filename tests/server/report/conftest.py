"""A summary with something of everything in it."""

from __future__ import annotations

import pytest

from tune_farm.server.report.summary import (
    EndToEnd,
    LeftOut,
    ShareSummary,
    Summary,
    TaskState,
    TaskSummary,
    TrialCounts,
)

TASKS = (
    TaskSummary(
        id="aa",
        name="dense[bold]|x",
        weight=1,
        baseline_seconds=2e-5,
        best_seconds=3e-5,
        spread_seconds=None,
        trials=16,
        state=TaskState.BASELINE,
        reason="nothing faster found",
    ),
    TaskSummary(
        id="bb",
        name="conv2d_add",
        weight=4,
        baseline_seconds=3e-3,
        best_seconds=2e-3,
        spread_seconds=1e-5,
        trials=64,
        state=TaskState.TUNED,
    ),
)


@pytest.fixture
def summary() -> Summary:
    return Summary(
        run_id="20260101-resnet50-abc123",
        run_directory="runs/20260101-resnet50-abc123",
        model="resnet50",
        device="Test CPU [a]",
        share=ShareSummary(kind="cores", percent=40, granted=4, total=8),
        clients=2,
        layout="packed",
        tasks=TASKS,
        untunable=(LeftOut(name="nms", reason="symbolic shape"),),
        skipped=(LeftOut(name="softmax", reason="not selected"),),
        trials=TrialCounts(
            measured=70,
            pruned_static=5,
            pruned_predicted=6,
            failed=(("build_error", 3), ("run_timeout", 1)),
        ),
        end_to_end=EndToEnd(
            baseline_seconds=0.014,
            tuned_seconds=0.010,
            checked=True,
            repeats=10,
            saved_interval_seconds=(0.003, 0.005),
        ),
        wall_seconds=305.0,
        stage_seconds=(("search", 10.0), ("build", 120.0)),
        predictor=None,
        first_failure="build_error: undefined symbol",
        exit_code=0,
        simulated=False,
    )
