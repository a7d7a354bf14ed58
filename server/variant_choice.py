"""Finds the operators of a model that are tuned in several variants, by prediction."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tune_farm.server.form_choice import best_seconds
from tune_farm.server.variants import Alternatives, Variant
from tune_farm.sharding.calls import OperatorCall, operator_calls
from tune_farm.sharding.extract import make_task, normalize, target_text, workload_id
from tune_farm.sharding.lower import LoweredModel
from tune_farm.sharding.naming import unique_names
from tune_farm.sharding.winograd.convolution import Convolution
from tune_farm.sharding.winograd.matrices import TILES
from tune_farm.sharding.winograd.rewrite import find_convolutions, operator_names, operators_of
from tune_farm.tuner.predictor.machine import Cpu
from tune_farm.tuner.predictor.tile import TilePredictor
from tune_farm.tuner.types import Task

_LOG = logging.getLogger(__name__)

#: A variant that is predicted to take more than this many times the fastest one's time is not
#: tried. Before anything is measured the law is off by about as much.
_NEAR = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Operators with several variants, and the tasks that these add to the model's."""

    alternatives: tuple[Alternatives, ...] = ()
    tasks: tuple[Task, ...] = ()


def find_variants(lowered: LoweredModel, tasks: Iterable[Task], target: Any, *, cpu: Cpu) -> Found:
    """Winograd variants of a packed model's convolutions, where they may win.

    Args:
        lowered: the model.
        tasks: those of its operators that are tuned; the others have no variants.
        target: the TVM target of the share.
        cpu: the share's cores.
    """
    known = {task.id: task for task in tasks}
    calls = {call.name: call for call in operator_calls(lowered.module)}
    groups: dict[str, list[str]] = {}
    convolutions = find_convolutions(lowered)
    for name in convolutions:
        task_id = workload_id(normalize(lowered.module[name]))
        if task_id in known:
            groups.setdefault(task_id, []).append(name)
    judge = _Judge(cpu)
    alternatives: list[Alternatives] = []
    added: dict[str, Task] = {}
    for task_id, functions in groups.items():
        weight = sum(calls[name].weight for name in functions)
        variants = {}
        for tile in TILES:
            variant, own = _winograd(
                convolutions[functions[0]], functions[0], tile, weight, target, lowered
            )
            variants[variant] = own
        direct = Variant(name="direct", tile=None, tasks=(task_id,))
        kept = judge.near(direct, known[task_id], variants)
        if kept:
            found = Alternatives(functions=tuple(functions), variants=(direct, *kept))
            alternatives.append(found)
            for task in (task for variant in kept for task in variants[variant]):
                before = added.get(task.id)
                added[task.id] = replace(
                    task, weight=task.weight + (before.weight if before else 0)
                )
    # Never a task that the model has anyway: it would be there twice.
    fresh = [task for key, task in added.items() if key not in known]
    names = unique_names([*(task.name for task in known.values()), *(task.name for task in fresh)])
    named = zip(fresh, names[len(known) :], strict=True)
    return Found(
        alternatives=tuple(alternatives),
        tasks=tuple(replace(task, name=name) for task, name in named),
    )


def _winograd(
    convolution: Convolution,
    function: str,
    tile: int,
    weight: int,
    target: Any,
    lowered: LoweredModel,
) -> tuple[Variant, tuple[Task, ...]]:
    """The variant of a convolution with tiles of one size, and its tasks."""
    names = operator_names(function)
    functions = operators_of(convolution, tile).functions
    tasks = tuple(
        make_task(
            each,
            OperatorCall(name=name, is_function=True, weight=weight),
            target_text(target),
            lowered.layout,
        )
        for name, each in zip(names, functions, strict=True)
    )
    name = f"winograd {tile}x{tile}"
    return Variant(name=name, tile=tile, tasks=tuple(task.id for task in tasks)), tasks


class _Judge:
    """Predicts variants; each task once."""

    def __init__(self, cpu: Cpu) -> None:
        self._cpu = cpu
        self._predictor = TilePredictor(cpu, threads=1)
        self._seconds: dict[str, float] = {}  #: by task

    def near(
        self, direct: Variant, task: Task, others: dict[Variant, tuple[Task, ...]]
    ) -> list[Variant]:
        """Those of the other variants that may win."""
        predicted = {variant: self._sum(tasks) for variant, tasks in others.items()}
        least = min(self._sum([task]), *predicted.values())
        for variant, seconds in ((direct, self._sum([task])), *predicted.items()):
            _LOG.debug("%s, %s: predicted %.3g s", task.name, variant.name, seconds)
        return [variant for variant, seconds in predicted.items() if seconds <= _NEAR * least]

    def _sum(self, tasks: Iterable[Task]) -> float:
        return sum(self._one(task) for task in tasks)

    def _one(self, task: Task) -> float:
        if task.id not in self._seconds:
            self._seconds[task.id] = best_seconds(task, self._cpu, self._predictor)
        return self._seconds[task.id]
