"""Plain TVM finds the best schedule of every task in the exported files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tune_farm.tuner.errors import TuneFarmError
from tune_farm.tuner.types import UNTUNED_TRACE, Fault, Purpose, Record, Task

tvm = pytest.importorskip("tvm")
from tvm import te  # noqa: E402
from tvm.s_tir import Schedule  # noqa: E402
from tvm.s_tir import meta_schedule as ms  # noqa: E402

from tune_farm.server.tvm_export import export_database, ranked_by_task  # noqa: E402

MakeRecord = Callable[..., Record]
TARGET = '{"kind": "llvm", "num-cores": 2}'


def make_task(length: int) -> Task:
    """Return a task that adds one to a vector."""
    source = te.placeholder((length,), name="A")
    result = te.compute((length,), lambda i: source[i] + 1.0, name="B")
    module = tvm.IRModule({"main": te.create_prim_func([source, result])})
    module["main"] = module["main"].with_attr("global_symbol", "main")
    return Task(
        id=f"add{length}",
        name=f"add {length}",
        kind="add",
        weight=1,
        flops=float(length),
        bytes_moved=8 * length,
        reduction_length=1,
        arguments=(),
        module_json=tvm.ir.save_json(module),
        target_json=TARGET,
    )


def make_trace(task: Task, factor: int) -> str:
    """Return the trace of splitting the task's loop."""
    schedule = Schedule(tvm.ir.load_json(task.module_json))
    (loop,) = schedule.get_loops(schedule.get_sblock("B"))
    schedule.split(loop, [None, factor])
    encode = tvm.get_global_func("s_tir.schedule.TraceAsJSON")
    return json.dumps(ms.utils._json_de_tvm(encode(schedule.trace, False)))


@pytest.fixture(scope="module")
def tasks() -> tuple[Task, ...]:
    return make_task(64), make_task(128), make_task(256)


def load(folder: Path) -> Any:
    return ms.database.JSONDatabase(
        str(folder / "database_workload.json"), str(folder / "database_tuning_record.json")
    )


def test_plain_tvm_loads_the_best_of_each_task(
    tmp_path: Path, tasks: tuple[Task, ...], record: MakeRecord
) -> None:
    records = []
    for task in tasks[:2]:
        records += [
            record(make_trace(task, 4), 3e-3, task=task.id),
            record(make_trace(task, 8), 1e-3, task=task.id),
            record(make_trace(task, 16), Fault.RUN_ERROR, task=task.id),
            record(UNTUNED_TRACE, 5e-4, task=task.id, purpose=Purpose.BASELINE),
        ]
    assert export_database(tmp_path, tasks, records) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "database_tuning_record.json",
        "database_workload.json",
    ]
    database = load(tmp_path)
    target = tvm.target.Target(json.loads(TARGET))
    for task in tasks[:2]:
        module = tvm.ir.load_json(task.module_json)
        found = database.query_tuning_record(module, target, task.name)
        assert [float(seconds) for seconds in found.run_secs] == [1e-3]
        schedule = database.query_schedule(module, target, task.name)
        assert ", 8)" in schedule.mod.script()
    assert (
        database.query_tuning_record(tvm.ir.load_json(tasks[2].module_json), target, tasks[2].name)
        is None
    )


def test_export_again_replaces_and_keeps_the_order_of_workloads(
    tmp_path: Path, tasks: tuple[Task, ...], record: MakeRecord
) -> None:
    first = record(make_trace(tasks[1], 4), 3e-3, task=tasks[1].id)
    export_database(tmp_path, tasks, [first])
    workloads = (tmp_path / "database_workload.json").read_bytes()
    more = [first, record(make_trace(tasks[0], 4), 2e-3, task=tasks[0].id)]
    assert export_database(tmp_path, tasks, more, top_k=1) == 2
    assert (tmp_path / "database_workload.json").read_bytes() == workloads
    assert len(load(tmp_path)) == 2


def test_nothing_measured_gives_a_database_without_records(
    tmp_path: Path, tasks: tuple[Task, ...]
) -> None:
    assert export_database(tmp_path, tasks, []) == 0
    assert len(load(tmp_path)) == 0


def test_trace_that_does_not_fit_is_named(
    tmp_path: Path, tasks: tuple[Task, ...], record: MakeRecord
) -> None:
    bad = record('[[["NoSuchThing", [], [], []]], []]', task=tasks[0].id)
    with pytest.raises(TuneFarmError, match="NoSuchThing") as caught:
        export_database(tmp_path, tasks, [bad])
    assert f"candidate {bad.candidate.id} of task add 64" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_unconfirmed_search_results_do_not_outrank_finals(record: MakeRecord) -> None:
    records = [
        record("[1]", 1.0),
        record("[2]", 0.5),
        record("[3]", 3.0),
        record("[1]", 1.2, purpose=Purpose.FINAL),
        record("[4]", 1.4, purpose=Purpose.FINAL),
    ]
    rows = ranked_by_task(records)["conv"]
    assert [(row.candidate.trace_json, row.seconds) for row in rows] == [
        ("[1]", 1.2),
        ("[4]", 1.4),
        ("[3]", 3.0),
    ]


def test_top_k_counts_schedules(
    tmp_path: Path, tasks: tuple[Task, ...], record: MakeRecord
) -> None:
    task = tasks[2]
    records = [record(make_trace(task, 2**n), n * 1e-3, task=task.id) for n in range(1, 5)]
    assert export_database(tmp_path, tasks, records, top_k=2) == 2
    seconds = [float(item.run_secs[0]) for item in load(tmp_path).get_all_tuning_records()]
    assert sorted(seconds) == [1e-3, 2e-3]
