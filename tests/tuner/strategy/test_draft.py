"""Drafts keep our contract; the law orders them, measurements teach it, the audit is marked."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import te

from benchmarks.h100 import H100
from tests.contracts.strategy import StrategyContract, Subject, proposed_by, told
from tests.tuner import operators
from tests.tuner.cuda_operators import cuda_task
from tests.tuner.operators import task_of
from tests.tuner.predictor.machines import CPU
from tests.tuner.records_of import record_of
from tune_farm.tuner.predictor.lessons import Chapter
from tune_farm.tuner.predictor.tile import TilePredictor
from tune_farm.tuner.strategy.choice import NoDesignSpaceError, Strategies
from tune_farm.tuner.strategy.draft import DraftOptions, DraftStrategy
from tune_farm.tuner.types import Purpose, Task

OPTIONS = DraftOptions(machine=CPU, drafts=256)


@functools.cache
def copy_of_nothing() -> Any:
    """An operator with one element: there is hardly anything to decide."""
    data = te.placeholder((1,), "float32", name="A")
    return te.create_prim_func([data, te.compute((1,), lambda i: data[i] + 1, name="B")])


def strategy_of(task: Task, options: DraftOptions = OPTIONS) -> DraftStrategy:
    predictor = TilePredictor(options.machine, threads=1, corrects=options.corrects)
    return DraftStrategy(task, predictor=predictor, options=options, seed=7)


def subject_of(task: Task, options: DraftOptions) -> Subject:
    return Subject(task=task, make=lambda: strategy_of(task, options))


@pytest.fixture(scope="module")
def task() -> Task:
    return task_of(operators.matmul(64, 64, 64))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [OPTIONS, replace(OPTIONS, uses_law=False), replace(OPTIONS, corrects=True)],
    ids=["tile", "none", "corrected"],
)
class TestDraftStrategy(StrategyContract):
    """The contract."""

    @pytest.fixture
    def subject(self, task: Task, options: DraftOptions) -> Subject:
        return subject_of(task, options)

    @pytest.fixture
    def empty(self, options: DraftOptions) -> Subject:
        return subject_of(task_of(copy_of_nothing()), options)


def test_the_best_prediction_comes_first(task: Task) -> None:
    proposals = strategy_of(task, replace(OPTIONS, explore=0.0)).propose(12)

    seconds = [proposal.predicted_seconds for proposal in proposals]
    assert None not in seconds
    assert seconds[0] == min(seconds)  # type: ignore[type-var]
    assert {proposal.purpose for proposal in proposals} == {Purpose.SEARCH}


def test_without_a_predictor_nothing_is_predicted(task: Task) -> None:
    proposals = strategy_of(task, replace(OPTIONS, uses_law=False)).propose(4)

    assert [proposal.predicted_seconds for proposal in proposals] == [None] * 4


def test_the_audit_takes_from_the_rejected(task: Task) -> None:
    strategy = strategy_of(task, replace(OPTIONS, explore=0.5))

    proposals = strategy.propose(16)

    kept = [p.predicted_seconds or 0.0 for p in proposals if p.purpose is Purpose.SEARCH]
    audited = [p.predicted_seconds or 0.0 for p in proposals if p.purpose is Purpose.AUDIT]
    assert 2 <= len(audited) <= 14
    assert 0 < max(kept) < min(audited)
    assert strategy.pruned.predicted_slow > len(proposals)


def test_what_was_measured_changes_what_is_proposed(task: Task) -> None:
    strategy = strategy_of(task, replace(OPTIONS, explore=0.0))
    first = strategy.propose(24)
    predicted = [p.predicted_seconds or 0.0 for p in first]
    # The truth is the law turned upside down.
    truth = [max(predicted) * min(predicted) / seconds for seconds in predicted]
    strategy.tell(record_of(p.candidate, seconds) for p, seconds in zip(first, truth, strict=True))

    again = strategy_of(task, replace(OPTIONS, explore=0.0))
    unlearned = again.propose(48)[24:]

    assert proposed_by(strategy, 24) != [p.candidate for p in unlearned]


def test_records_of_another_client_teach_as_much(task: Task) -> None:
    here, there = strategy_of(task), strategy_of(task)
    records = told(proposed_by(there, 16))
    there.tell(records)
    here.propose(16)  # the same draws, so that both stand at the same place

    here.tell(records)

    assert proposed_by(here, 8) == proposed_by(there, 8)


def test_a_law_that_is_no_better_than_chance_rejects_nothing(task: Task) -> None:
    strategy = strategy_of(task, replace(OPTIONS, explore=0.0))
    first = strategy.propose(24)
    rejected = strategy.pruned.predicted_slow
    assert rejected > 0
    slowest = max(p.predicted_seconds or 0.0 for p in first)
    strategy.tell(
        replace(
            record_of(p.candidate, slowest / (p.predicted_seconds or 1.0)),
            predicted_seconds=p.predicted_seconds,
        )
        for p in first
    )

    assert strategy.propose(8)

    assert strategy.pruned.predicted_slow == rejected


def test_few_drafts_of_a_gpu_fit_and_enough_are_found() -> None:
    gpu_task = cuda_task(operators.matmul(256, 256, 256))
    options = replace(OPTIONS, machine=H100)

    strategy = strategy_of(gpu_task, options)
    proposals = strategy.propose(6)

    assert len(proposals) == 6
    assert len({proposal.candidate.id for proposal in proposals}) == 6
    assert strategy.pruned.over_limit > options.drafts


def test_with_a_correction_what_is_drawn_reaches_beyond_what_is_kept(task: Task) -> None:
    strategy = strategy_of(task, replace(OPTIONS, corrects=True, explore=0.0))
    strategy.tell(told(proposed_by(strategy, 16)))

    proposals = strategy.propose(16)

    purposes = [proposal.purpose for proposal in proposals]
    assert purposes[:8] == [Purpose.SEARCH] * 8  # what promises most
    assert Purpose.AUDIT in purposes[8:]  # drawn, and not kept
    assert len({proposal.candidate.id for proposal in proposals}) == 16


def test_what_earlier_runs_learned_decides_what_is_tried_first(task: Task) -> None:
    first = strategies()
    for other in (operators.matmul(64, 64, 64), operators.matmul(32, 64, 128), operators.matmul()):
        each = first.of(task_of(other), ())
        each.tell(told(proposed_by(each, 16)))
    chapter = Chapter(place="here", lessons=first.take_lessons())
    unknown = task_of(operators.matmul(128, 32, 64))

    again = [proposed_by(strategies(chapter).of(unknown, ()), 8) for _ in range(2)]

    assert len(chapter.lessons) >= 32
    assert again[0] == again[1]  # the same seed and memory
    assert again[0] != proposed_by(strategies().of(unknown, ()), 8)


def strategies(*memory: Chapter) -> Strategies:
    return Strategies(replace(OPTIONS, memory=memory, explore=0.0), seed=3)


def test_where_no_draft_keeps_to_the_limits_the_search_ends() -> None:
    cramped = replace(OPTIONS, machine=replace(H100, max_thread_registers=1))
    strategy = strategy_of(cuda_task(operators.matmul(64, 64, 64)), cramped)

    assert strategy.propose(4) == []
    assert strategy.pruned.over_limit > 0


@pytest.mark.parametrize("change", [{"keep": 0.0}, {"keep": 0.0, "explore": 1.0}, {"keep": 1.0}])
def test_a_predictor_that_rejects_all_or_nothing_still_proposes(
    task: Task, change: dict[str, float]
) -> None:
    strategy = strategy_of(task, replace(OPTIONS, **change))  # type: ignore[arg-type]

    assert len({each.id for each in proposed_by(strategy, 6)}) == 6


def test_where_all_that_was_kept_is_refused_the_rejected_are_tried(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = strategy_of(task, replace(OPTIONS, keep=0.0, explore=0.0))
    realize = strategy._space.realize
    refused: list[Any] = []

    def refuse_at_first(plot: int, genes: Any) -> Any:
        if len(refused) < 4:  # as many as are kept
            refused.append(genes)
            return None
        return realize(plot, genes)

    monkeypatch.setattr(strategy._space, "realize", refuse_at_first)

    proposals = strategy.propose(4)

    assert len(proposals) == 4
    assert {proposal.purpose for proposal in proposals} == {Purpose.SEARCH}
    assert strategy.pruned.over_limit >= 4


def test_a_budget_larger_than_the_space_searches_it_out() -> None:
    small = task_of(operators.matmul(2, 1, 1))
    strategy = strategy_of(small, replace(OPTIONS, explore=0.0, keep=0.01))
    found: set[str] = set()

    while proposed := proposed_by(strategy, 64):
        found |= {each.id for each in proposed}
        strategy.tell(told(proposed))

    space, predictor = strategy._space, TilePredictor(CPU, threads=1)
    assert space.size < OPTIONS.drafts
    allowed = 0
    for plot in space.plots:
        genes = np.unique(plot.sketch.draw(4096, np.random.default_rng(0)), axis=0)
        allowed += int(predictor.fits(plot, genes).sum())
    assert len(found) == allowed


def test_a_task_without_a_design_space_says_so(task: Task) -> None:
    nowhere = replace(task, target_json='{"kind": "cuda"}')  # nothing is known of the device

    with pytest.raises(NoDesignSpaceError, match="max_threads_per_block"):
        strategies().of(nowhere, ())
