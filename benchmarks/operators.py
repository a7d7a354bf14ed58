"""Operators that benchmarks take from models, and a few that no built-in model has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tune_farm.tuner.types import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Operators of one built-in model, as `tune-farm tasks` counts them."""

    model: str
    tasks: tuple[int, ...]


def model_tasks(
    selections: Sequence[Selection], target_json: str, *, packed: bool = False
) -> list[Task]:
    """Load models and cut them for a target; imports TVM (seconds).

    Args:
        selections: what is wanted.
        target_json: the TVM target.
        packed: take the models as `run` tunes them on a CPU, not as their authors wrote them.
    """
    import json

    import tvm

    from tune_farm.sharding.compiler_output import compiler_output_logged
    from tune_farm.sharding.extract import extract
    from tune_farm.sharding.layout import Layout
    from tune_farm.sharding.lower import lower
    from tune_farm.sharding.models.load import load_model
    from tune_farm.sharding.models.spec import ModelSpec

    target = tvm.target.Target(json.loads(target_json))
    found = []
    for selection in selections:
        loaded = load_model(ModelSpec(model=selection.model), with_weights=False)
        with compiler_output_logged():
            layout = Layout.PACKED if packed else Layout.GIVEN
            lowered = lower(loaded, target, layout, fast_math=packed)
            tasks = extract(lowered, target).tasks
        found += [tasks[index] for index in selection.tasks]
    return found


def whole_model_tasks(models: Sequence[str], target_json: str) -> list[Task]:
    """All distinct operators of models as they are given; imports TVM (seconds)."""
    import json

    import tvm

    from tune_farm.sharding.compiler_output import compiler_output_logged
    from tune_farm.sharding.extract import extract
    from tune_farm.sharding.lower import lower
    from tune_farm.sharding.models.load import load_model
    from tune_farm.sharding.models.spec import ModelSpec

    target = tvm.target.Target(json.loads(target_json))
    found: dict[str, Task] = {}
    for model in models:
        loaded = load_model(ModelSpec(model=model), with_weights=False)
        with compiler_output_logged():
            tasks = extract(lower(loaded, target), target).tasks
        found |= {task.id: task for task in tasks}
    return list(found.values())


def grouped_convolution(groups: int, target_json: str, *, channels: int = 64) -> Task:
    """A 3x3 convolution in groups with a ReLU, NCHW, 28x28; depthwise if each has one channel."""
    from tvm import te, topi

    data = te.placeholder((1, channels, 28, 28), "float32", name="data")
    weight = te.placeholder((channels, channels // groups, 3, 3), "float32", name="weight")
    convolved = topi.nn.group_conv2d_nchw(data, weight, 1, 1, 1, groups, "float32")
    name = "depthwise_conv2d" if groups == channels else f"conv2d_of_{groups}_groups"
    return _task(
        te.create_prim_func([data, weight, topi.nn.relu(convolved)]), name, "conv2d", target_json
    )


def product(target_json: str) -> Task:
    """BERT's first dense layer of a feed-forward block, 512 tokens, with a bias and a ReLU."""
    from tvm import te, topi

    data = te.placeholder((512, 768), "float32", name="data")
    weight = te.placeholder((768, 3072), "float32", name="weight")
    bias = te.placeholder((3072,), "float32", name="bias")
    result = topi.nn.relu(topi.add(topi.nn.matmul(data, weight), bias))
    return _task(te.create_prim_func([data, weight, bias, result]), "dense", "matmul", target_json)


def batch_product(target_json: str) -> Task:
    """BERT's attention scores of 512 tokens: twelve heads, 64 elements each."""
    from tvm import te, topi

    left = te.placeholder((12, 512, 64), "float32", name="left")
    right = te.placeholder((12, 512, 64), "float32", name="right")
    result = topi.nn.batch_matmul(left, right)
    return _task(te.create_prim_func([left, right, result]), "scores", "batch_matmul", target_json)


def convolution(target_json: str) -> Task:
    """ResNet-50's 3x3 convolution of 14x14 pixels with a ReLU, NCHW."""
    from tvm import te, topi

    data = te.placeholder((1, 256, 14, 14), "float32", name="data")
    weight = te.placeholder((256, 256, 3, 3), "float32", name="weight")
    result = topi.nn.relu(topi.nn.conv2d_nchw(data, weight, 1, 1, 1, "float32"))
    return _task(te.create_prim_func([data, weight, result]), "conv2d", "conv2d", target_json)


def half_product(target_json: str) -> Task:
    """BERT's first dense layer of a feed-forward block in float16, sums in float32, with a bias."""
    from tvm import te, topi

    data = te.placeholder((128, 768), "float16", name="data")
    weight = te.placeholder((768, 3072), "float16", name="weight")
    bias = te.placeholder((3072,), "float32", name="bias")
    product = topi.nn.matmul(data, weight, out_dtype="float32")
    result = topi.cast(topi.add(product, bias), "float16")
    return _task(
        te.create_prim_func([data, weight, bias, result]), "matmul_half", "matmul", target_json
    )


def half_convolution(target_json: str) -> Task:
    """ResNet-50's 3x3 convolution of 14x14 pixels in float16 with float32 sums, with a ReLU."""
    from tvm import te, topi

    data = te.placeholder((1, 256, 14, 14), "float16", name="data")
    weight = te.placeholder((256, 256, 3, 3), "float16", name="weight")
    convolved = topi.nn.conv2d_nchw(data, weight, 1, 1, 1, "float32")
    result = topi.cast(topi.nn.relu(convolved), "float16")
    return _task(te.create_prim_func([data, weight, result]), "conv2d_half", "conv2d", target_json)


def _task(function: object, name: str, kind: str, target_json: str) -> Task:
    import tvm

    from tune_farm.sharding.arguments import argument_specs
    from tune_farm.sharding.cost import measure_cost
    from tune_farm.sharding.extract import normalize, workload_id

    arguments = argument_specs(function)
    cost = measure_cost(function, arguments)
    module = normalize(function)
    return Task(
        id=workload_id(module),
        name=name,
        kind=kind,
        weight=1,
        flops=cost.flops,
        bytes_moved=cost.bytes_moved,
        reduction_length=cost.reduction_length,
        arguments=arguments,
        module_json=tvm.ir.save_json(module),
        target_json=target_json,
    )
