from __future__ import annotations

import pytest
import tvm
from tvm import te

from tune_farm.sharding.arguments import argument_specs
from tune_farm.sharding.cost import OperatorCost, SymbolicSizeError, dtype_bytes, measure_cost
from tune_farm.sharding.extract import extract
from tune_farm.sharding.lower import lower
from tune_farm.sharding.models.load import load_model
from tune_farm.sharding.models.spec import ModelSpec


def cost_of(*tensors: te.Tensor) -> OperatorCost:
    function = te.create_prim_func(list(tensors))
    return measure_cost(function, argument_specs(function))


def test_matmul() -> None:
    a, b = te.placeholder((8, 32), name="a"), te.placeholder((32, 16), name="b")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((8, 16), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))
    cost = cost_of(a, b, c)
    assert cost.flops == 2 * 8 * 16 * 32
    assert cost.bytes_moved == 4 * (8 * 32 + 32 * 16 + 8 * 16)
    assert cost.reduction_length == 32


def test_elementwise_has_no_reduction() -> None:
    a = te.placeholder((4, 5), name="a")
    b = te.compute((4, 5), lambda i, j: tvm.tirx.exp(a[i, j]) + 1.0)
    cost = cost_of(a, b)
    assert cost.flops == 2 * 20
    assert cost.reduction_length == 1


def test_integer_arithmetic_is_free() -> None:
    a = te.placeholder((7,), dtype="int32", name="a")
    b = te.compute((7,), lambda i: a[i] * 2 + 1)
    assert cost_of(a, b).flops == 0


def test_symbolic_size_is_reported() -> None:
    n = te.var("n", "int64")
    a = te.placeholder((n,), name="a")
    function = te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0)])
    with pytest.raises(SymbolicSizeError):
        measure_cost(function, ())


@pytest.mark.parametrize(
    ("dtype", "size"), [("float32", 4), ("float16", 2), ("bool", 1), ("int64", 8), ("int4", 1)]
)
def test_dtype_bytes(dtype: str, size: int) -> None:
    assert dtype_bytes(dtype) == size


@pytest.mark.parametrize(
    ("model", "published_macs"), [("resnet18", 1.81e9), ("resnet50", 4.09e9), ("bert-base", 11.2e9)]
)
def test_sum_is_the_published_work(
    model: str, published_macs: float, target: tvm.target.Target
) -> None:
    lowered = lower(load_model(ModelSpec(model=model), with_weights=False), target)
    total = sum(task.flops * task.weight for task in extract(lowered, target).tasks)
    assert total == pytest.approx(2 * published_macs, rel=0.03)
