"""Schedules of a few operators, as the product drafts them for several shares; imports TVM."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.gpu.bundle import Operator, Schedule
from benchmarks.gpu.launches import row_of
from benchmarks.operators import batch_product, convolution, product
from tune_farm.tuner.predictor.cuda_target import cuda_target
from tune_farm.tuner.predictor.gpu_laws import gpu_tiles
from tune_farm.tuner.predictor.machine import Gpu
from tune_farm.tuner.predictor.tile import TilePredictor
from tune_farm.tuner.space.design import DesignSpace
from tune_farm.tuner.strategy.draft import DraftOptions, DraftStrategy
from tune_farm.tuner.types import Candidate, Task

#: Shares that are drafted for; each gives its own candidates, half of them the best by prediction.
_PERCENTS = (10, 25, 50, 100)
_DRAFTS_PER_SHARE = {False: 4, True: 2}  # by quick
_OPERATORS: tuple[Callable[[str], Task], ...] = (batch_product, product, convolution)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """An operator and its schedules, not compiled yet."""

    task: Task
    operator: Operator
    candidates: tuple[Candidate, ...]  # of its schedules, in their order


def draft_operators(capability: str, machine: Gpu, *, quick: bool) -> tuple[Operator, ...]:
    """Operators whose schedules can be simulated.

    Args:
        capability: compute capability, such as "9.0".
        machine: the whole GPU.
        quick: one operator only, and half of the schedules.
    """
    return tuple(each.operator for each in drafts(capability, machine, quick=quick))


def drafts(capability: str, machine: Gpu, *, quick: bool) -> list[Drafted]:
    """The same, with what compiling them takes."""
    target = cuda_target(machine, capability)
    made = (make(json.dumps(target)) for make in _OPERATORS[: 1 if quick else None])
    count = _DRAFTS_PER_SHARE[quick]
    return [_draft(task, str(target["arch"]), machine, count) for task in made]


def _draft(task: Task, architecture: str, machine: Gpu, count: int) -> Drafted:
    space = DesignSpace(task, seed=0)
    found: dict[str, tuple[Candidate, Schedule]] = {}
    for percent in _PERCENTS:
        share = replace(machine, sms=max(1, machine.total_sms * percent // 100))
        strategy = DraftStrategy(
            task,
            predictor=TilePredictor(share, threads=1),
            options=DraftOptions(machine=share, explore=0.0),
            seed=percent,
        )
        for proposal in strategy.propose(count):
            candidate = proposal.candidate
            located = space.locate(candidate)
            assert located is not None, "a draft is of its own space"
            plot, genes = located
            tiles = gpu_tiles(space.plots[plot], genes[None])
            if tiles is None or len(tiles) != 1 or tiles[0].on_tensor_cores:
                continue  # the check launches one kernel
            schedule = Schedule(id=candidate.id, origin=f"{percent}%", tiles=row_of(tiles[0]))
            found.setdefault(candidate.id, (candidate, schedule))
    operator = Operator(
        name=task.name,
        architecture=architecture,
        task_id=task.id,
        arguments=task.arguments,
        reduction_length=task.reduction_length,
        flops=task.flops,
        schedules=tuple(schedule for _, schedule in found.values()),
    )
    candidates = tuple(candidate for candidate, _ in found.values())
    return Drafted(task=task, operator=operator, candidates=candidates)
