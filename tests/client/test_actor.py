"""Clients as Ray actors: they join, work, are replaced when killed, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.tuner import operators
from tests.tuner.operators import task_of
from tests.tuner.records_of import DEVICE
from tests.tuner.waiting import happens
from tune_farm.client.agent import AgentOptions
from tune_farm.client.messages import ClientBroken, OrderDone, RecordKnown, TuneOrder
from tune_farm.client.share.slot import Slot
from tune_farm.server.farm import Farm, Joined, Lost, News, Said
from tune_farm.server.processes import make_temp_dir
from tune_farm.tuner.children.mark import MARKER, mark, processes_of
from tune_farm.tuner.measure.messages import Timing
from tune_farm.tuner.measure.runner import RunOptions
from tune_farm.tuner.strategy.metaschedule import MetaScheduleOptions
from tune_farm.tuner.types import Measured, Share, Task

CORE = min(os.sched_getaffinity(0))
RUN_ID = f"test-actor-{os.getpid()}"
PATIENCE_SECONDS = 90.0


def options_of(
    folder: Path, client: str = "client-0", cores: tuple[int, ...] = (CORE,)
) -> AgentOptions:
    share = Share(kind="cores", asked_percent=50, granted=len(cores), total=2)
    return AgentOptions(
        slot=Slot(name=client, measure_cores=cores, build_cores=(CORE,), share=share),
        device=DEVICE,
        scratch=folder / "scratch" / client,
        corunners=0,
        seed=1,
        search=MetaScheduleOptions(sampler="random"),
        run=RunOptions(timing=Timing(repeats=1, repeat_seconds=0.001)),
    )


@pytest.fixture
def temp_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(MARKER, "")
    # Workers import the code from here, as they would import an installed package.
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    mark(RUN_ID)
    folder = make_temp_dir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def hear(farm: Farm, wanted: Callable[[News], bool]) -> list[News]:
    """Everything the farm hears up to the news that is waited for."""
    heard: list[News] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for news in farm.poll(0.5):
            heard.append(news)
            if isinstance(news, Said):
                farm.acknowledge(news.client, news.message.sequence)
            if wanted(news):
                return heard
    raise AssertionError(heard)


def is_last_word(news: News) -> bool:
    return isinstance(news, Said) and isinstance(news.message.payload, OrderDone | ClientBroken)


def actor_process() -> psutil.Process:
    """The worker process that the client lives in."""
    (found,) = (
        process
        for process in processes_of(RUN_ID)
        if "Client" in " ".join(process.cmdline()) and "ray::" in " ".join(process.cmdline())
    )
    return found


def tune(task: Task, order_id: int) -> TuneOrder:
    return TuneOrder(order_id=order_id, task=task, trials=1, known=())


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_a_farm_from_its_first_client_to_its_last_process(temp_dir: Path) -> None:
    task = task_of(operators.matmul())
    farm = Farm(
        {
            "client-0": options_of(temp_dir),
            "client-1": options_of(temp_dir, "client-1", cores=(CORE, 1023)),
        },
        address=None,
    )
    try:
        farm.start(temp_dir)
        heard = hear(farm, is_last_word)
        assert Joined(client="client-1") in heard
        last = heard[-1]
        assert isinstance(last, Said)
        assert isinstance(last.message.payload, ClientBroken)
        reason = last.message.payload.detail.splitlines()[0]
        assert "the share is not in force" in reason
        assert farm.lose("client-1", reason) == Lost(client="client-1", reason=reason)
        if Joined(client="client-0") not in heard:
            hear(farm, lambda news: news == Joined(client="client-0"))

        farm.order("client-0", tune(task, 1))
        heard = hear(farm, is_last_word)
        said = [news.message for news in heard if isinstance(news, Said)]
        assert [message.sequence for message in said] == [0, 1, 2]
        records = [m.payload.record for m in said if isinstance(m.payload, RecordKnown)]
        assert all(isinstance(record.outcome, Measured) for record in records)
        assert said[-1].payload == OrderDone(order_id=1, proposed=1, failure=None)

        victim = actor_process()
        offspring = victim.children(recursive=True)
        assert offspring
        victim.kill()
        (lost,) = hear(farm, lambda news: isinstance(news, Lost))
        assert isinstance(lost, Lost)
        assert lost.client == "client-0"
        assert "client-0" not in farm.clients
        assert happens(lambda: not any(each.is_running() for each in offspring), 10.0)

        farm.start_client("client-0")
        hear(farm, lambda news: news == Joined(client="client-0"))
        farm.order("client-0", tune(task, 2))
        last = hear(farm, is_last_word)[-1]
        assert isinstance(last, Said)
        assert last.message.payload == OrderDone(order_id=2, proposed=1, failure=None)
    finally:
        farm.close()
        farm.close()

    assert happens(lambda: not processes_of(RUN_ID), 10.0), processes_of(RUN_ID)
