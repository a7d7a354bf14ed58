"""Finds a lowered model's operators: what can be tuned, what cannot, and why."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import tvm
from tvm import tirx
from tvm.s_tir.meta_schedule.database import Workload

from tune_farm.sharding.arguments import argument_specs, symbolic_sizes
from tune_farm.sharding.calls import OperatorCall, operator_calls
from tune_farm.sharding.cost import measure_cost
from tune_farm.sharding.layout import Layout
from tune_farm.sharding.lower import LoweredModel
from tune_farm.sharding.naming import kind_of, readable_name, shape_text, unique_names
from tune_farm.sharding.refine import refined_kind
from tune_farm.sharding.structure import untunable_reason
from tune_farm.tuner.types import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Untunable:
    """An operator that runs as it is."""

    name: str
    kind: str
    weight: int  # calls in one inference
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """An operator that could be tuned if the user gave more."""

    name: str
    weight: int  # calls in one inference
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """All operators of a model, in the order of their first call."""

    tasks: tuple[Task, ...]
    untunable: tuple[Untunable, ...]
    skipped: tuple[Skipped, ...]


def extract(lowered: LoweredModel, target: tvm.target.Target) -> Extraction:
    """Sort a model's operators into tasks, untunable and skipped ones.

    Equal operators are one task whose weight is the number of their calls.
    """
    target_json = target_text(target)
    tasks: dict[str, Task] = {}
    untunable: list[Untunable] = []
    skipped: list[Skipped] = []
    for call in operator_calls(lowered.module):
        found = _examine(lowered, call, target_json)
        if isinstance(found, Untunable):
            untunable.append(found)
        elif isinstance(found, Skipped):
            skipped.append(found)
        elif found.id in tasks:
            known = tasks[found.id]
            tasks[found.id] = replace(known, weight=known.weight + found.weight)
        else:
            tasks[found.id] = found
    names = unique_names(task.name for task in tasks.values())
    named = (replace(task, name=name) for task, name in zip(tasks.values(), names, strict=True))
    return Extraction(tasks=tuple(named), untunable=tuple(untunable), skipped=tuple(skipped))


def _examine(
    lowered: LoweredModel, call: OperatorCall, target_json: str
) -> Task | Untunable | Skipped:
    """Decide what one function is."""
    name = readable_name(call.name)
    function = lowered.module[call.name] if call.is_function else None
    if not isinstance(function, tirx.PrimFunc):
        library = "no tensor program: a function of the runtime's library does it"
        return Untunable(name=name, kind="runtime", weight=call.weight, reason=library)
    unknown = symbolic_sizes(function)
    if unknown:
        return _skip(name, call.weight, unknown, lowered.bindable_dims)
    reason = untunable_reason(function)
    if reason is not None:
        kind = kind_of(call.name, has_reduction=False)
        return Untunable(name=name, kind=kind, weight=call.weight, reason=reason)
    return make_task(function, call, target_json, lowered.layout)


def _skip(name: str, weight: int, unknown: tuple[str, ...], bindable: tuple[str, ...]) -> Skipped:
    given = [dim for dim in unknown if dim in bindable]
    bindings = " ".join(f"--shape {dim}=…" for dim in given)
    return Skipped(
        name=name,
        weight=weight,
        reason=f"its size depends on {', '.join(unknown)}",
        remedy=f"give the size: {bindings}" if given else "none: known only while the model runs",
    )


def target_text(target: tvm.target.Target) -> str:
    """A target as tasks hold it: JSON, keys in order."""
    return json.dumps(json.loads(str(target)), sort_keys=True)


def normalize(function: tirx.PrimFunc) -> tvm.IRModule:
    """The module of one function `main`, exactly as TVM's database stores and looks it up."""
    return tvm.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")(function)


def workload_id(module: tvm.IRModule) -> str:
    """TVM's hash of a normalized module: digits."""
    return str(Workload(module).as_json()[0])


def make_task(
    function: tirx.PrimFunc, call: OperatorCall, target_json: str, layout: Layout
) -> Task:
    """The task of a function that can be tuned; the target as `target_text` writes it."""
    arguments = argument_specs(function)
    cost = measure_cost(function, arguments)
    module = normalize(function)
    kind = kind_of(call.name, has_reduction=cost.reduction_length > 1)
    return Task(
        id=workload_id(module),
        name=f"{readable_name(call.name)}.{shape_text(arguments[-1].shape)}",
        kind=refined_kind(kind, arguments, layout),
        weight=call.weight,
        flops=cost.flops,
        bytes_moved=cost.bytes_moved,
        reduction_length=cost.reduction_length,
        arguments=arguments,
        module_json=tvm.ir.save_json(module),
        target_json=target_json,
    )
