"""The summary keeps the keys that readers rely on, and the exit code follows from it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tune_farm.server.report.summary import (
    EndToEnd,
    PredictorSummary,
    Summary,
    TaskState,
    TaskSummary,
    TrialCounts,
    exit_code_of,
    summary_from_json,
    summary_to_json,
)


def test_summary_survives_the_trip(summary: Summary) -> None:
    predictor = PredictorSummary(spearman=0.8, recall_at_keep=None, audited=9)
    for case in (
        summary,
        replace(summary, end_to_end=None, predictor=predictor, exit_code=None, simulated=True),
        replace(summary, checked=False),
    ):
        item = json.loads(json.dumps(summary_to_json(case), allow_nan=False))
        assert summary_from_json(item) == case


def test_keys_of_the_contract(summary: Summary) -> None:
    item = summary_to_json(summary)
    assert {
        "model",
        "device",
        "share",
        "clients",
        "layout",
        "tasks",
        "trials",
        "end_to_end",
        "wall_seconds",
        "stage_seconds",
        "predictor",
        "exit_code",
        "simulated",
    } <= item.keys()
    assert item["share"] == {"kind": "cores", "percent": 40, "granted": 4, "total": 8}
    assert item["tasks"][1]["state"] == "tuned"
    assert item["trials"] == {
        "measured": 70,
        "pruned_static": 5,
        "pruned_predicted": 6,
        "failed": {"build_error": 3, "run_timeout": 1},
    }
    assert item["end_to_end"]["checked"] is True
    assert item["stage_seconds"] == {"search": 10.0, "build": 120.0}


@pytest.mark.parametrize(
    ("change", "named"),
    [({"share": {}}, "impossible"), ({"tasks": 1}, "impossible"), ({"trials": {}}, "failed")],
)
def test_damaged_summary(summary: Summary, change: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        summary_from_json(summary_to_json(summary) | change)


def task(state: TaskState) -> TaskSummary:
    return TaskSummary(
        id="t",
        name="t",
        weight=1,
        baseline_seconds=None,
        best_seconds=None,
        spread_seconds=None,
        trials=1,
        state=state,
    )


TUNED, KEPT, FAILED, PENDING, UNUSED = map(task, TaskState)
SOME = TrialCounts(measured=1)
NONE = TrialCounts()
ALL_FAILED = TrialCounts(failed=(("run_error", 3),))
GOOD = EndToEnd(baseline_seconds=2.0, tuned_seconds=1.0, checked=True)
SLOW = replace(GOOD, saved_interval_seconds=(-0.2, -0.1), shipped="untuned")
EVEN = replace(GOOD, saved_interval_seconds=(-0.2, 0.1))
WRONG = replace(GOOD, checked=False, wrong="off by 3")


@pytest.mark.parametrize(
    ("code", "given"),
    [
        (0, {"tasks": [TUNED, KEPT], "trials": SOME, "end_to_end": GOOD}),
        (0, {"tasks": [TUNED], "trials": SOME, "budget_over": True}),
        (0, {"tasks": [KEPT], "trials": NONE}),
        (0, {"tasks": [], "trials": NONE}),
        (0, {"tasks": [TUNED], "trials": SOME, "end_to_end": EVEN}),
        (0, {"tasks": [TUNED, FAILED], "trials": SOME, "allow_partial": True}),
        (3, {"tasks": [FAILED], "trials": ALL_FAILED}),
        (3, {"tasks": [KEPT], "trials": ALL_FAILED}),
        (3, {"tasks": [FAILED], "trials": NONE, "allow_partial": True}),
        (3, {"tasks": [KEPT], "trials": ALL_FAILED, "budget_over": True}),
        (4, {"tasks": [TUNED, FAILED], "trials": SOME, "end_to_end": GOOD}),
        (4, {"tasks": [TUNED, PENDING], "trials": SOME, "budget_over": True}),
        (7, {"tasks": [TUNED, FAILED], "trials": SOME, "end_to_end": WRONG}),
        (7, {"tasks": [TUNED], "trials": SOME, "end_to_end": SLOW, "allow_partial": True}),
        (124, {"tasks": [KEPT, PENDING], "trials": NONE, "budget_over": True}),
        (0, {"tasks": [TUNED, UNUSED], "trials": SOME}),
        (3, {"tasks": [FAILED, UNUSED], "trials": SOME}),
        (130, {"tasks": [PENDING], "trials": NONE, "interrupted_by": 2}),
        (143, {"tasks": [TUNED], "trials": SOME, "end_to_end": WRONG, "interrupted_by": 15}),
    ],
)
def test_exit_code(code: int, given: dict[str, Any]) -> None:
    assert exit_code_of(**{"end_to_end": None} | given) == code


def test_a_variant_that_is_not_used_saves_nothing() -> None:
    fast = replace(TUNED, baseline_seconds=2.0, best_seconds=1.0, weight=3)

    assert fast.saved_seconds == 3.0
    assert replace(fast, state=TaskState.UNUSED).saved_seconds == 0.0
