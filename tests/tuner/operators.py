"""Small operators, right and wrong, and the tasks they make."""

from __future__ import annotations

import functools
import json
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import te, topi

from tune_farm.sharding.arguments import argument_specs
from tune_farm.sharding.cost import measure_cost
from tune_farm.sharding.extract import normalize, workload_id
from tune_farm.tuner.space.traces import trace_to_json
from tune_farm.tuner.types import Candidate, Task

TARGET_JSON = json.dumps({"kind": "llvm", "num-cores": 1})
#: Schedules of this matmul take LLVM about 20 s when all of it is unrolled.
SLOW_SIZE = 24


@functools.cache
def matmul(n: int = 32, m: int = 32, k: int = 32, *, terms: int | None = None) -> Any:
    """A float32 matrix product; `terms` fewer than `k` leaves the last reduction steps out."""
    left = te.placeholder((n, k), "float32", name="A")
    right = te.placeholder((k, m), "float32", name="B")
    axis = te.reduce_axis((0, k if terms is None else terms), "k")
    product = te.compute(
        (n, m), lambda i, j: te.sum(left[i, axis] * right[axis, j], axis=axis), name="C"
    )
    return te.create_prim_func([left, right, product])


@functools.cache
def split_matmul(n: int = 32, m: int = 32, k: int = 32) -> Any:
    """The same product, its sum taken in four parts: right, but for rounding."""
    left = te.placeholder((n, k), "float32", name="A")
    right = te.placeholder((k, m), "float32", name="B")
    axis = te.reduce_axis((0, k // 4), "k")
    parts = te.compute(
        (4, n, m),
        lambda p, i, j: te.sum(left[i, axis * 4 + p] * right[axis * 4 + p, j], axis=axis),
        name="P",
    )
    total = te.compute(
        (n, m), lambda i, j: (parts[3, i, j] + parts[1, i, j]) + (parts[2, i, j] + parts[0, i, j])
    )
    return te.create_prim_func([left, right, total])


@functools.cache
def conv2d() -> Any:
    """A 3x3 convolution, NCHW."""
    data = te.placeholder((1, 8, 12, 12), "float32", name="data")
    weight = te.placeholder((16, 8, 3, 3), "float32", name="weight")
    return te.create_prim_func(
        [data, weight, topi.nn.conv2d_nchw(data, weight, stride=1, padding=1, dilation=1)]
    )


@functools.cache
def softmax() -> Any:
    """A softmax over the last axis."""
    data = te.placeholder((16, 40), "float32", name="data")
    return te.create_prim_func([data, topi.nn.softmax(data, axis=-1)])


@functools.cache
def square_root() -> Any:
    """An operator that has no answer for half of all numbers."""
    data = te.placeholder((64,), "float32", name="data")
    return te.create_prim_func([data, topi.sqrt(data)])


@functools.cache
def integer_sum(*, off_by: int = 0) -> Any:
    """Sums rows of integers; `off_by` makes it wrong by as much."""
    data = te.placeholder((8, 32), "int32", name="data")
    axis = te.reduce_axis((0, 32), "k")
    total = te.compute((8,), lambda i: te.sum(data[i, axis], axis=axis), name="total")
    result = te.compute((8,), lambda i: total[i] + off_by, name="result")
    return te.create_prim_func([data, result])


def from_text(*loops: str) -> Any:
    """A function from A to B, 64 floats each, that runs the given loops."""
    from tvm.script import tirx

    source = (
        "@T.prim_func(s_tir=True)\n"
        'def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):\n'
        '    T.func_attr({"tirx.noalias": True})\n' + textwrap.indent("".join(loops), "    ")
    )
    return tvm.script.from_source(source, extra_vars={"T": tirx})


def loop(name: str, statement: str, *, start: int = 0, count: int = 64) -> str:
    """TVMScript that runs a statement about element `v`, for so many elements."""
    return (
        f"for i in range({count}):\n"
        f'    with T.sblock("{name}"):\n'
        f"        v = T.axis.spatial(64, i + {start})\n"
        f"        {statement}\n"
    )


def module_of(function: Any) -> Any:
    """The IRModule of one function `main`, as tasks hold it."""
    return normalize(function)


def task_of(function: Any, *, name: str = "operator", kind: str = "matmul") -> Task:
    """The task that an operator makes."""
    arguments = argument_specs(function)
    cost = measure_cost(function, arguments)
    module = module_of(function)
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
        target_json=TARGET_JSON,
    )


def export(function: Any, path: Path) -> Path:
    """Compile a function as it is."""
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    target = tvm.target.Target(TARGET_JSON)
    tvm.tirx.build(module, target=target).export_library(str(path))
    return path


def unrolled(task: Task) -> Candidate:
    """The candidate of a matmul task with all loops unrolled."""
    return _scheduled(task, lambda schedule, each: schedule.unroll(each))


def parallel(task: Task) -> Candidate:
    """The candidate of a matmul task with its outer loop parallel."""
    return _scheduled(task, lambda schedule, each: schedule.parallel(each), only_outermost=True)


def split(task: Task, factor: int) -> Candidate:
    """The candidate of a matmul task with its outer loop split."""
    return _scheduled(
        task,
        lambda schedule, each: schedule.split(each, factors=[None, factor]),
        only_outermost=True,
    )


def _scheduled(task: Task, change: Any, *, only_outermost: bool = False) -> Candidate:
    schedule = tvm.s_tir.Schedule(tvm.ir.load_json(task.module_json))
    loops = schedule.get_loops(schedule.get_sblock("C"))
    for each in loops[:1] if only_outermost else loops:
        change(schedule, each)
    return Candidate(task_id=task.id, trace_json=trace_to_json(schedule.trace))


def convolved(data: Any, weight: Any) -> Any:
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight)


def softmaxed(data: Any) -> Any:
    powers = np.exp(data - data.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
