from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import onnx
import pytest
import tvm
from tvm import relax, s_tir, tirx
from tvm.s_tir import meta_schedule as ms

from tune_farm.sharding.extract import Extraction, extract, normalize, workload_id
from tune_farm.sharding.lower import LoweredModel, lower
from tune_farm.sharding.models.load import load_model
from tune_farm.sharding.models.spec import LoadedModel, ModelSpec
from tune_farm.sharding.structure import statements

Models = dict[tuple[str, bool], LoadedModel]


def weights_by_id(extraction: Extraction) -> dict[str, int]:
    return {task.id: task.weight for task in extraction.tasks}


@pytest.fixture(scope="module")
def resnet18_tasks(resnet18: LoweredModel, target: tvm.target.Target) -> Extraction:
    return extract(resnet18, target)


def test_agrees_with_the_compilers_own_extraction(
    resnet18: LoweredModel, resnet18_tasks: Extraction, target: tvm.target.Target
) -> None:
    theirs: Counter[str] = Counter()
    for task in ms.relax_integration.extract_tasks(resnet18.module, target):
        theirs[workload_id(task.dispatched[0])] += task.weight
    ours = weights_by_id(resnet18_tasks)
    views = {workload_id(normalize(resnet18.module["reshape"]))}
    assert ours == {id_: weight for id_, weight in theirs.items() if id_ not in views}


def test_weights_do_not_change_the_tasks(
    resnet18_tasks: Extraction, tiny_models: Models, target: tvm.target.Target
) -> None:
    full = extract(
        lower(load_model(ModelSpec(model="resnet18"), with_weights=True), target), target
    )
    assert weights_by_id(full) == weights_by_id(resnet18_tasks)
    with_weights, without = (
        extract(lower(tiny_models["bert", flag], target), target) for flag in (True, False)
    )
    assert weights_by_id(with_weights) == weights_by_id(without)


def parallel_trace(module: tvm.IRModule) -> s_tir.schedule.Trace:
    """A schedule that shows: the database passes over records whose trace is empty."""
    blocks = [
        statement.name_hint
        for statement in statements(module["main"].body)
        if isinstance(statement, s_tir.SBlock) and statement.iter_vars
    ]
    schedule = s_tir.Schedule(module)
    schedule.parallel(schedule.get_loops(schedule.get_sblock(blocks[-1]))[0])
    return schedule.trace


def is_parallel(function: tirx.PrimFunc) -> bool:
    return any(
        isinstance(statement, tirx.For) and statement.kind == tirx.ForKind.PARALLEL
        for statement in statements(function.body)
    )


def test_database_finds_each_task(
    resnet18: LoweredModel, resnet18_tasks: Extraction, target: tvm.target.Target
) -> None:
    database = ms.database.MemoryDatabase()
    for task in resnet18_tasks.tasks:
        module = tvm.ir.load_json(task.module_json)
        assert workload_id(module) == task.id
        record = ms.database.TuningRecord(
            parallel_trace(module),
            database.commit_workload(module),
            [0.1],
            tvm.target.Target(task.target_json),
            [],
        )
        database.commit_tuning_record(record)
    for name, function in resnet18.module.functions_items():
        if name.name_hint not in ("main", "reshape"):
            module = normalize(function)
            assert database.has_workload(module)
            assert database.query_tuning_record(module, target, "main") is not None
    with target, database, tvm.transform.PassContext(opt_level=3):
        applied = relax.transform.MetaScheduleApplyDatabase()(resnet18.module)
    tuned = {
        name.name_hint
        for name, function in applied.functions_items()
        if name.name_hint != "main" and is_parallel(function)
    }
    assert tuned == {name.name_hint for name in applied.get_global_vars()} - {"main", "reshape"}


def test_tasks_are_complete(resnet18_tasks: Extraction) -> None:
    tasks = resnet18_tasks.tasks
    assert len({task.name for task in tasks}) == len(tasks)
    assert len({task.id for task in tasks}) == len(tasks)
    for task in tasks:
        assert task.id.isdigit()
        assert " " not in task.name
        assert [spec.is_output for spec in task.arguments].count(True) == 1
        assert task.arguments[-1].is_output
        assert task.bytes_moved > 0
        assert json.loads(task.target_json)["kind"] == "llvm"
    kinds = {task.kind for task in tasks}
    assert kinds == {"conv2d", "pool", "reduce", "matmul"}


def test_view_is_untunable_with_its_reason(resnet18_tasks: Extraction) -> None:
    (view,) = resnet18_tasks.untunable
    assert (view.name, view.kind, view.weight) == ("reshape", "layout", 1)
    assert "view" in view.reason
    assert not resnet18_tasks.skipped


def test_symbolic_operator_is_skipped_and_the_rest_goes_on(
    tmp_path: Path, target: tvm.target.Target
) -> None:
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["y"]),
            helper.make_node("Softmax", ["fixed"], ["z"], axis=-1),
        ],
        "mixed",
        [
            helper.make_tensor_value_info("x", float32, ["n", 64]),
            helper.make_tensor_value_info("fixed", float32, [8, 64]),
        ],
        [
            helper.make_tensor_value_info("y", float32, ["n", 64]),
            helper.make_tensor_value_info("z", float32, [8, 64]),
        ],
    )
    path = tmp_path / "mixed.onnx"
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    lowered = lower(load_model(ModelSpec(model=str(path)), with_weights=True), target)
    found = extract(lowered, target)
    assert lowered.has_symbolic_shapes
    assert lowered.symbolic_dims == ("n",)
    assert [task.kind for task in found.tasks] == ["softmax"]
    (skipped,) = found.skipped
    assert skipped.name == "relu"
    assert skipped.reason == "its size depends on n"
    assert "--shape n=" in skipped.remedy

    bound = ModelSpec(model=str(path), shapes=(("n", 4),))
    lowered = lower(load_model(bound, with_weights=True), target)
    found = extract(lowered, target)
    assert not lowered.has_symbolic_shapes
    assert not found.skipped
    assert {task.name for task in found.tasks} == {"relu.4x64", "softmax.8x64"}


def test_bert_kinds(tiny_models: Models, target: tvm.target.Target) -> None:
    found = extract(lower(tiny_models["bert", False], target), target)
    kinds = {task.kind for task in found.tasks}
    assert {"matmul", "batch_matmul", "softmax", "layer_norm", "gather"} <= kinds
