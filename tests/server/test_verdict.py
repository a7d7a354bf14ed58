"""The summary of a run: what it found, what it left out, and the exit code that follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.tuner.predictor.machines import CPU
from tests.tuner.records_of import DEVICE, SHARE, candidate, plain_task, record_of
from tune_farm.client.messages import Comparison
from tune_farm.client.share.slot import Slot
from tune_farm.client.whole_model.agreement import Agreement
from tune_farm.server.ledger import Ledger
from tune_farm.server.place import Place
from tune_farm.server.preparation import Prepared
from tune_farm.server.report.summary import PredictorSummary, Summary, TaskState
from tune_farm.server.search import Search
from tune_farm.server.state import FarmState, Limits
from tune_farm.server.variants import Alternatives, Variant
from tune_farm.server.verdict import Verdict
from tune_farm.sharding.extract import Extraction, Skipped, Untunable
from tune_farm.tuner.interfaces import Pruned
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.types import Fault, Purpose, Record

PLACE = Place(
    device=DEVICE,
    machine=CPU,
    headline="tuning for a processor",
    slots=tuple(
        Slot(name=f"client-{core}", measure_cores=(core,), build_cores=(core,), share=SHARE)
        for core in (0, 1)
    ),
)
TASK = plain_task("a", weight=2)
OTHER = plain_task("b")
BASELINE = record_of(untuned(TASK), 1.0, purpose=Purpose.BASELINE)
FASTER = record_of(candidate(1, "a"), 0.5)
NONE_PRUNED = Pruned()
FAILED = record_of(candidate(2, "a"), Fault.RUN_ERROR)
EXTRACTION = Extraction(
    tasks=(TASK, OTHER),
    untunable=(Untunable(name="sort", kind="runtime", weight=1, reason="a library does it"),),
    skipped=(Skipped(name="pad", weight=1, reason="its size depends on n", remedy="--shape n=…"),),
)


def comparison(
    baseline: float, tuned: float, wrong: str | None = None, *, checked: bool = True
) -> Comparison:
    agreement = Agreement(wrong=wrong, max_relative_error=0.0, rounding_error=None)
    return Comparison(
        baseline_seconds=(baseline, baseline * 1.01, baseline),
        tuned_seconds=(tuned, tuned * 1.01, tuned),
        agreement=agreement if checked else None,
    )


def summary_of(
    *records: Record,
    compared: Comparison | None = None,
    comparison_failure: str | None = None,
    interrupted_by: int | None = None,
    budget_seconds: float | None = None,
    allow_partial: bool = False,
    strategy: str = "metaschedule",
    checked: bool = True,
    pruned: Pruned = NONE_PRUNED,
    alternatives: tuple[Alternatives, ...] = (),
) -> Summary:
    tasks = [TASK, OTHER] if alternatives else [TASK]
    costs = dict.fromkeys("ab", 1.0)
    search = SimpleNamespace(
        state=FarmState(Ledger(tasks, records), costs, Limits(), alternatives),
        journal=SimpleNamespace(
            records=records,
            header=SimpleNamespace(run_id="run-1", layout="packed", checked=checked),
        ),
        failures=SimpleNamespace(first="run_error: the cause" if FAILED in records else None),
        comparison=compared,
        comparison_failure=comparison_failure,
        budget_seconds=budget_seconds,
        spent_seconds=10.0,
        stage_seconds={"search": 9.0, "final": 1.0},
        pruned=pruned,
    )
    config = SimpleNamespace(
        spec=SimpleNamespace(model="tiny"),
        allow_partial=allow_partial,
        strategy=strategy,
        predictor="tile",
        keep=0.2,
    )
    return Verdict(
        config=cast(Any, config),
        place=PLACE,
        prepared=Prepared(
            lowered=cast(Any, None),
            baseline=cast(Any, None),
            extraction=EXTRACTION,
            selected=(TASK,),
            target_json="{}",
        ),
        search=cast(Search, search),
        interrupted_by=interrupted_by,
        wall_seconds=20.0,
        directory=Path("runs/run-1"),
    ).summary()


def test_a_tuned_model() -> None:
    summary = summary_of(BASELINE, FASTER, compared=comparison(2.0, 1.0))

    assert summary.exit_code == 0
    assert (summary.run_id, summary.model, summary.device) == ("run-1", "tiny", "Test CPU")
    assert (summary.share.percent, summary.share.granted, summary.share.total) == (50, 1, 2)
    assert summary.clients == 2
    assert [task.state for task in summary.tasks] == [TaskState.TUNED]
    assert summary.end_to_end is not None
    assert summary.end_to_end.shipped == "tuned"
    assert summary.stage_seconds == (("search", 9.0), ("final", 1.0))
    assert summary.predictor is None
    assert summary.first_failure is None
    assert not summary.simulated


def test_an_unchecked_model_ships_and_says_that_nobody_looked() -> None:
    compared = comparison(2.0, 1.0, checked=False)

    summary = summary_of(BASELINE, FASTER, compared=compared, checked=False)

    assert summary.exit_code == 0
    assert not summary.checked
    assert summary.end_to_end is not None
    assert (summary.end_to_end.checked, summary.end_to_end.wrong) == (False, "")
    assert summary.end_to_end.max_relative_error is None
    assert summary.end_to_end.shipped == "tuned"
    assert summary.mark == "UNCHECKED"


@pytest.mark.parametrize(
    ("how", "tiles"),
    [
        ({}, {"f": 4}),
        ({"compared": comparison(2.0, 1.0)}, {"f": 4}),
        ({"compared": comparison(2.0, 1.0, wrong="differs")}, {}),
        ({"compared": comparison(1.0, 2.0)}, {}),
        ({"comparison_failure": "does not build"}, {}),
    ],
)
def test_variants_are_told_that_ship(how: dict[str, Any], tiles: dict[str, int]) -> None:
    direct = Variant(name="direct", tile=None, tasks=("a",))
    winograd = Variant(name="winograd 4x4", tile=4, tasks=("b",))
    choice = Alternatives(functions=("f",), variants=(direct, winograd))
    fastest = record_of(candidate(2, "b"), 0.1)

    summary = summary_of(BASELINE, FASTER, fastest, alternatives=(choice,), **how)

    assert dict(summary.winograd_tiles) == tiles
    assert [task.state for task in summary.tasks] == [TaskState.UNUSED, TaskState.TUNED]


def test_what_was_left_out_says_why() -> None:
    summary = summary_of(BASELINE, FASTER)

    assert [(row.name, row.reason) for row in summary.untunable] == [("sort", "a library does it")]
    assert [(row.name, row.reason) for row in summary.skipped] == [
        ("pad", "its size depends on n; --shape n=…"),
        ("1 of 2 tasks", "not selected by --tasks"),
    ]


@pytest.mark.parametrize(
    ("records", "how", "exit_code"),
    [
        ([BASELINE, FASTER], {"compared": comparison(2.0, 1.0, wrong="differs")}, 7),
        ([BASELINE, FASTER], {"compared": comparison(1.0, 2.0)}, 7),
        ([BASELINE, FASTER], {"comparison_failure": "the tuned model does not build"}, 7),
        ([BASELINE, FASTER], {"comparison_failure": "stopped", "interrupted_by": 2}, 130),
        ([BASELINE, FASTER], {"interrupted_by": 15}, 143),
        ([BASELINE, FAILED], {}, 3),
        ([BASELINE, FAILED], {"budget_seconds": 5.0}, 3),
        ([], {"budget_seconds": 5.0}, 124),
        ([BASELINE], {"budget_seconds": 500.0}, 0),
    ],
)
def test_the_exit_code(records: list[Record], how: dict[str, Any], exit_code: int) -> None:
    assert summary_of(*records, **how).exit_code == exit_code


def test_the_predictor_is_judged_where_there_is_one() -> None:
    predicted = replace(FASTER, predicted_seconds=0.4)

    assert summary_of(BASELINE, predicted).predictor is None
    assert summary_of(BASELINE, predicted, strategy="draft").predictor == PredictorSummary(
        spearman=None, recall_at_keep=None, audited=0
    )
    assert summary_of(BASELINE, predicted, strategy="draft", interrupted_by=2).predictor is None


def test_pruned_drafts_are_counted() -> None:
    trials = summary_of(BASELINE, FASTER, pruned=Pruned(over_limit=2, predicted_slow=90)).trials

    assert (trials.pruned_static, trials.pruned_predicted) == (2, 90)


def test_the_first_failure_is_the_one_that_matters_most() -> None:
    failed = summary_of(BASELINE, FASTER, FAILED, comparison_failure="does not build")
    assert failed.first_failure == "does not build"
    assert summary_of(BASELINE, FAILED).first_failure == "run_error: the cause"
