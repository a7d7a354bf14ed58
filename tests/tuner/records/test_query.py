"""Finals outrank search results, the last attempt stands, failures are counted by fault."""

from __future__ import annotations

from collections.abc import Callable

from tune_farm.tuner.records.query import (
    baseline_by_task,
    best_by_task,
    count_outcomes,
    still_failed,
    trials_by_task,
)
from tune_farm.tuner.types import UNTUNED_TRACE, Fault, Purpose, Record

MakeRecord = Callable[..., Record]


def test_best_is_the_fastest_of_each_task(record: MakeRecord) -> None:
    records = [
        record("[1]", 3.0),
        record("[2]", 2.0),
        record("[3]", Fault.RUN_ERROR),
        record("[1]", 5.0, task="dense"),
        record(UNTUNED_TRACE, 0.1, purpose=Purpose.BASELINE),
    ]
    best = best_by_task(records)
    assert {task: item.seconds for task, item in best.items()} == {"conv": 2.0, "dense": 5.0}


def test_finals_outrank_a_lucky_search_result(record: MakeRecord) -> None:
    records = [
        record("[1]", 1.0),
        record("[2]", 0.5),
        record("[1]", 1.2, purpose=Purpose.FINAL),
        record("[2]", 1.5, purpose=Purpose.FINAL),
        record(UNTUNED_TRACE, 0.9, purpose=Purpose.FINAL),
    ]
    assert best_by_task(records)["conv"].seconds == 1.2


def test_failed_finals_do_not_hide_search_results(record: MakeRecord) -> None:
    records = [record("[1]", 1.0), record("[1]", Fault.LOST, purpose=Purpose.FINAL)]
    assert best_by_task(records)["conv"].seconds == 1.0


def test_last_attempt_stands(record: MakeRecord) -> None:
    records = [record("[1]", 2.0, attempt=1), record("[1]", 1.0), record("[2]", 1.5)]
    assert best_by_task(records)["conv"].candidate.trace_json == "[2]"


def test_result_that_was_stopped_early_comes_last(record: MakeRecord) -> None:
    records = [record("[1]", 1.0, stopped_early=True), record("[2]", 1.1)]
    assert best_by_task(records)["conv"].seconds == 1.1


def test_baseline_is_the_untuned_operator(record: MakeRecord) -> None:
    records = [
        record("[1]", 1.0),
        record(UNTUNED_TRACE, 4.0, purpose=Purpose.BASELINE),
        record(UNTUNED_TRACE, 5.0, purpose=Purpose.FINAL),
    ]
    assert baseline_by_task(records[:2])["conv"].seconds == 4.0
    assert baseline_by_task(records)["conv"].seconds == 5.0


def test_counts_by_fault(record: MakeRecord) -> None:
    records = [
        record("[1]"),
        record("[2]", Fault.RUN_ERROR),
        record("[3]", Fault.BUILD_ERROR),
        record("[3]", Fault.BUILD_ERROR, attempt=1),
        record("[1]", purpose=Purpose.FINAL),
    ]
    counts = count_outcomes(records)
    assert counts.measured == 1
    assert counts.failed == ((Fault.BUILD_ERROR, 2), (Fault.RUN_ERROR, 1))
    assert counts.failed_total == 3


def test_trials_count_candidates_not_attempts(record: MakeRecord) -> None:
    records = [
        record("[0]", Fault.LOST),
        record(UNTUNED_TRACE, 4.0, purpose=Purpose.BASELINE),
        record("[1]", 5.0),
        record("[2]", Fault.RUN_ERROR),
        record("[0]", 3.0, attempt=1),
        record("[0]", 1.0, purpose=Purpose.FINAL),
        record("[1]", Fault.LOST, task="dense"),
    ]
    assert trials_by_task(records) == {"conv": 3, "dense": 1}


def test_what_failed_and_never_worked_can_be_tried_again(record: MakeRecord) -> None:
    records = [
        record("[1]", 1.0),
        record("[2]", Fault.RUN_ERROR),
        record("[2]", Fault.BUILD_TIMEOUT, attempt=1),
        record("[3]", Fault.LOST),
        record("[3]", 2.0, attempt=1),
        record("[4]", Fault.PRUNED_STATIC),
        record("[5]", Fault.WRONG_RESULT, purpose=Purpose.AUDIT, task="dense"),
        record(UNTUNED_TRACE, Fault.BUILD_ERROR, purpose=Purpose.BASELINE),
        record("[1]", Fault.RUN_ERROR, purpose=Purpose.FINAL),
    ]

    assert still_failed(records) == {"conv": [records[2]], "dense": [records[6]]}
