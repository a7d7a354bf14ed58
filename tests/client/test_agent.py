"""A slot tunes a real operator with real processes, and says so when it cannot."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tuner import operators
from tests.tuner.operators import parallel, split, task_of
from tests.tuner.records_of import DEVICE, record_of
from tests.tuner.waiting import is_gone
from tune_farm.client.agent import Agent, AgentOptions
from tune_farm.client.messages import (
    ClientBroken,
    FinalOrder,
    Order,
    OrderDone,
    Payload,
    RecordKnown,
    RetryOrder,
    TuneOrder,
)
from tune_farm.client.share.slot import Slot
from tune_farm.tuner.children.spawn import ChildDiedError
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.measure.messages import Timing
from tune_farm.tuner.measure.runner import RunOptions
from tune_farm.tuner.strategy.metaschedule import MetaScheduleOptions
from tune_farm.tuner.types import Fault, Measured, Purpose, Record, Share, Task

CORE = min(os.sched_getaffinity(0))
QUICK = Timing(repeats=2, repeat_seconds=0.001)


@pytest.fixture(scope="module")
def task() -> Task:
    return task_of(operators.matmul())


class Stop:
    """Whether the agent is to stop."""

    answer = False

    def __call__(self) -> bool:
        return self.answer


@pytest.fixture
def stop() -> Stop:
    return Stop()


@pytest.fixture
def open_agent(tmp_path: Path, stop: Stop) -> Iterator[Callable[..., Agent]]:
    agents = []

    def make(folder: str = "scratch", cores: tuple[int, ...] = (CORE,)) -> Agent:
        share = Share(kind="cores", asked_percent=50, granted=len(cores), total=2)
        options = AgentOptions(
            slot=Slot(name="client-0", measure_cores=cores, build_cores=(CORE,), share=share),
            device=DEVICE,
            scratch=tmp_path / folder,
            corunners=1,
            seed=1,
            search=MetaScheduleOptions(sampler="random"),
            run=RunOptions(timing=QUICK),
            final_timing=Timing(repeats=1, repeat_seconds=0.001),
        )
        agents.append(Agent(options, stop))
        return agents[-1]

    yield make
    for agent in agents:
        agent.close()


def perform(agent: Agent, order: Order) -> tuple[list[Record], Payload]:
    """All records of an order, and the last word."""
    *said, last = agent.perform(order)
    records = []
    for payload in said:
        assert isinstance(payload, RecordKnown)
        assert payload.order_id == order.order_id
        records.append(payload.record)
    return records, last


def tune(task: Task, trials: int = 2, known: tuple[Record, ...] = (), order_id: int = 1) -> Any:
    return TuneOrder(order_id=order_id, task=task, trials=trials, known=known)


def build_workers() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if not is_gone(child.pid) and "tune_farm.tuner.build.worker" in " ".join(child.cmdline())
    ]


@pytest.mark.slow
def test_a_task_from_its_baseline_to_its_finals(
    open_agent: Callable[..., Agent], task: Task
) -> None:
    agent = open_agent()

    first, last = perform(agent, tune(task, trials=3))

    assert last == OrderDone(order_id=1, proposed=3, failure=None)
    assert [r.purpose for r in first] == [Purpose.BASELINE] + [Purpose.SEARCH] * 3
    assert first[0].candidate == untuned(task)
    assert all(isinstance(record.outcome, Measured) for record in first), first
    assert {r.client for r in first} == {"client-0"}
    assert {r.cores_used for r in first} == {(CORE,)}
    assert {r.corunners for r in first} == {1}
    assert all(r.stage_seconds.build > 0 for r in first)

    second, last = perform(agent, tune(task, trials=2, known=tuple(first), order_id=2))

    assert last == OrderDone(order_id=2, proposed=2, failure=None)
    assert [r.purpose for r in second] == [Purpose.SEARCH] * 2
    assert not {r.candidate for r in first} & {r.candidate for r in second}

    candidates = (second[0].candidate, untuned(task))
    known = (*first, *second)
    order = FinalOrder(order_id=3, task=task, candidates=candidates, known=known)
    finals, last = perform(agent, order)

    assert last == OrderDone(order_id=3, proposed=2, failure=None)
    assert tuple(r.candidate for r in finals) == candidates
    for record in finals:
        assert record.purpose is Purpose.FINAL
        assert record.corunners == 0
        assert isinstance(record.outcome, Measured)
        assert len(record.outcome.repeats_seconds) >= 3


@pytest.mark.slow
def test_where_the_baseline_is_known_only_the_reference_is_made(
    open_agent: Callable[..., Agent], task: Task
) -> None:
    agent = open_agent()
    baseline = record_of(untuned(task), 1e-3, purpose=Purpose.BASELINE)
    candidates = (split(task, 4), parallel(task))
    failed = record_of(candidates[0], Fault.LOST, purpose=Purpose.FINAL, attempt=1)

    records, last = perform(
        agent,
        FinalOrder(order_id=1, task=task, candidates=candidates, known=(baseline, failed)),
    )

    assert last == OrderDone(order_id=1, proposed=2, failure=None)
    # What an earlier session recorded keeps its number.
    assert [(r.purpose, r.attempt) for r in records] == [(Purpose.FINAL, 2)] * 2
    assert all(isinstance(record.outcome, Measured) for record in records)


@pytest.mark.slow
def test_a_stop_is_no_failure_of_the_task(
    open_agent: Callable[..., Agent], stop: Stop, task: Task
) -> None:
    agent = open_agent()
    baseline = record_of(untuned(task), 1e-3, purpose=Purpose.BASELINE)
    stop.answer = True

    for known in ((), (baseline,)):
        assert perform(agent, tune(task, known=known)) == (
            [],
            OrderDone(order_id=1, proposed=0, failure=None),
        )

    stop.answer = False
    earlier = record_of(untuned(task), Fault.HOST_OVERLOAD, purpose=Purpose.BASELINE)
    records, last = perform(agent, tune(task, trials=1, known=(earlier,)))
    assert [(r.purpose, r.attempt) for r in records] == [
        (Purpose.BASELINE, 1),
        (Purpose.SEARCH, 0),
    ]
    assert last == OrderDone(order_id=1, proposed=1, failure=None)


@pytest.mark.slow
def test_a_task_whose_untuned_operator_does_not_build_is_given_back(
    open_agent: Callable[..., Agent], task: Task
) -> None:
    agent = open_agent()
    fields = {name: getattr(task, name) for name in Task.__dataclass_fields__}
    broken = Task(**fields | {"id": "17", "module_json": "no module"})

    (record,), last = perform(agent, tune(broken))

    assert record.purpose is Purpose.BASELINE
    assert isinstance(last, OrderDone)
    assert last.proposed == 0
    assert str(last.failure).startswith("untuned operator: build_error: ")


@pytest.mark.slow
def test_what_failed_is_measured_as_another_attempt(
    open_agent: Callable[..., Agent], task: Task
) -> None:
    agent = open_agent()
    baseline = record_of(untuned(task), 1e-3, purpose=Purpose.BASELINE)
    failed = (
        record_of(split(task, 4), Fault.BUILD_TIMEOUT, attempt=1),
        record_of(parallel(task), Fault.RUN_TIMEOUT, purpose=Purpose.AUDIT),
    )
    known = (baseline, *failed)

    records, last = perform(agent, RetryOrder(order_id=4, task=task, failed=failed, known=known))

    assert last == OrderDone(order_id=4, proposed=2, failure=None)
    assert all(isinstance(record.outcome, Measured) for record in records), records
    found = {record.candidate: record for record in records}
    assert [found[each.candidate].purpose for each in failed] == [Purpose.SEARCH, Purpose.AUDIT]
    assert not {record.key for record in known} & {record.key for record in records}


@pytest.mark.slow
def test_a_task_without_a_design_space_is_given_back(
    open_agent: Callable[..., Agent], task: Task
) -> None:
    agent = open_agent()
    # TVM compiles for it, but finds no schedules: it wants to know how many cores there are.
    odd = replace(task, target_json='{"kind": "llvm"}')

    (baseline,), last = perform(agent, tune(odd))

    assert isinstance(baseline.outcome, Measured)
    assert isinstance(last, OrderDone)
    assert str(last.failure).startswith("no design space: InternalError: ")
    assert "num-cores" in str(last.failure)


def test_a_client_whose_workers_do_not_start_is_broken(
    open_agent: Callable[..., Agent], task: Task
) -> None:
    agent = open_agent()
    for worker in build_workers():
        worker.suspend()  # lest it be ready already: what dies later is replaced
        worker.kill()

    records, last = perform(agent, tune(task))

    assert records == []
    assert isinstance(last, ClientBroken)
    assert last.detail.splitlines()[0] == "client-0-worker-1 died: SIGKILL"


def test_an_agent_without_its_share_is_not_made(open_agent: Callable[..., Agent]) -> None:
    with pytest.raises(ChildDiedError, match="the share is not in force"):
        open_agent(cores=(CORE, 1023))

    assert build_workers() == []
