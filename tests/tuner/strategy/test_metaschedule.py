"""TVM's search keeps our contract, in both samplers; once warm its cost model ranks."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tvm import te
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.cost_model import PyCostModel

from tests.contracts.strategy import StrategyContract, Subject, proposed_by, told
from tests.tuner import operators
from tests.tuner.operators import task_of
from tests.tuner.records_of import record_of
from tune_farm.tuner.strategy.metaschedule import (
    MetaScheduleOptions,
    MetaScheduleStrategy,
    new_cost_model,
)
from tune_farm.tuner.types import Fault, Task

OPTIONS = MetaScheduleOptions(population=8, generations=1, warm_up=6)
RANDOM = MetaScheduleOptions(sampler="random", population=8, generations=1, warm_up=6)


@functools.cache
def copy_of_nothing() -> Any:
    """An operator with one element: there is hardly anything to decide."""
    data = te.placeholder((1,), "float32", name="A")
    return te.create_prim_func([data, te.compute((1,), lambda i: data[i] + 1, name="B")])


def subject_of(task: Task, options: MetaScheduleOptions) -> Subject:
    return Subject(
        task=task,
        make=lambda: MetaScheduleStrategy(
            task, cost_model=new_cost_model(options), options=options, seed=7
        ),
    )


@pytest.fixture(scope="module")
def task() -> Task:
    return task_of(operators.matmul())


@pytest.mark.slow
@pytest.mark.parametrize("options", [OPTIONS, RANDOM], ids=["evolutionary", "random"])
class TestMetaScheduleStrategy(StrategyContract):
    """The contract."""

    @pytest.fixture
    def subject(self, task: Task, options: MetaScheduleOptions) -> Subject:
        return subject_of(task, options)

    @pytest.fixture
    def empty(self, options: MetaScheduleOptions) -> Subject:
        return subject_of(task_of(copy_of_nothing()), options)


@derived_object
class WatchedModel(PyCostModel):  # type: ignore[misc]
    """Counts what it is asked, and likes everything the same."""

    def __init__(self) -> None:
        super().__init__()
        self.data_size = 0
        self.predictions = 0
        self.results: list[list[float] | None] = []

    def load(self, path: str) -> None:
        raise NotImplementedError

    def save(self, path: str) -> None:
        raise NotImplementedError

    def update(self, context: Any, candidates: Sequence[Any], results: Sequence[Any]) -> None:
        self.data_size += len(candidates)
        self.results += [
            None if each.run_secs is None else [float(second) for second in each.run_secs]
            for each in results
        ]

    def predict(self, context: Any, candidates: Sequence[Any]) -> Any:
        self.predictions += len(candidates)
        return np.ones(len(candidates))


def watched(task: Task, options: MetaScheduleOptions) -> tuple[MetaScheduleStrategy, Any]:
    model = WatchedModel()
    return MetaScheduleStrategy(task, cost_model=model, options=options, seed=7), model


def test_the_cost_model_ranks_once_it_is_warm_and_not_before(task: Task) -> None:
    strategy, model = watched(task, OPTIONS)

    cold = proposed_by(strategy, OPTIONS.warm_up)
    assert model.predictions == 0
    strategy.tell(told(cold))
    assert model.data_size == len(cold) == OPTIONS.warm_up
    warm = proposed_by(strategy, 4)

    assert warm
    assert model.predictions > 0
    assert not {c.id for c in cold} & {c.id for c in warm}


def test_the_random_sampler_never_asks_a_model(task: Task) -> None:
    strategy, model = watched(task, RANDOM)

    for _ in range(3):
        strategy.tell(told(proposed_by(strategy, 4)))

    assert model.predictions == model.data_size == 0


def test_the_model_learns_each_candidate_once_and_no_baseline(task: Task) -> None:
    strategy, model = watched(task, OPTIONS)
    records = told(proposed_by(strategy, 3))

    strategy.tell(records)
    strategy.tell(records)

    assert model.data_size == 3


def test_tvms_own_model_is_trained_by_failures_too(task: Task) -> None:
    model = new_cost_model(OPTIONS)
    strategy = MetaScheduleStrategy(task, cost_model=model, options=OPTIONS, seed=7)

    proposed = proposed_by(strategy, OPTIONS.warm_up)
    strategy.tell([record_of(each, Fault.WRONG_RESULT) for each in proposed])

    assert model.data_size == len(proposed)
    assert proposed_by(strategy, 2)


def test_what_hit_the_host_is_not_held_against_the_candidate(task: Task) -> None:
    strategy, model = watched(task, OPTIONS)
    (candidate,) = proposed_by(strategy, 1)
    overload = record_of(candidate, Fault.HOST_OVERLOAD)

    strategy.tell([overload])
    assert model.data_size == 0
    strategy.tell([overload, record_of(candidate, 1e-3, attempt=1)])

    assert model.results == [[1e-3] * 3]
    assert candidate not in proposed_by(strategy, 4)


def test_what_kills_its_worker_twice_is_learned_as_failed(task: Task) -> None:
    strategy, model = watched(task, OPTIONS)
    (candidate,) = proposed_by(strategy, 1)

    strategy.tell([record_of(candidate, Fault.WORKER_DIED, attempt=number) for number in (0, 1)])

    assert model.results == [None]
