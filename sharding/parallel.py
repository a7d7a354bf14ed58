"""A model on several GPUs: data, tensor or pipeline parallel training.

Messages go at 0.72 of a link's bandwidth in one direction, which is half of what data sheets print.
An all-reduce of n GPUs goes around a ring, 2 (n - 1) / n of its bytes over each link (Patarasuk and
Yuan 2009), and takes 40 µs on top, which is what NCCL loses on messages of some megabytes.

Data parallel: gradients are reduced while the backward pass goes on; only those of the first block,
the last to be known, come after it. Tensor parallel: reductions stand between kernels; nothing runs
beside them. Pipeline: m microbatches go through p stages in m + p - 1 turns of the slowest, and
each boundary is crossed between two turns (GPipe, Huang et al. 2019).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tune_farm.sharding.compose import ModelForecast, Pass, total
from tune_farm.sharding.graphs.launches import FLOAT_BYTES
from tune_farm.sharding.graphs.operator import Graph
from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.predictor.forecast.chip import Chip

_SUSTAINED = 0.72
_REDUCE_SECONDS = 40e-6
#: NVLink's bytes a second by the name that the driver reports, both directions together: the data
#: sheets of H100 and H200 (2022, 2024), A100 (2020), V100 (2018), B200 (2024), P100 (2016).
_LINKS = {
    "NVIDIA B200": 1800e9,
    "NVIDIA H100 80GB HBM3": 900e9,
    "NVIDIA H100 NVL": 600e9,
    "NVIDIA H200": 900e9,
    "NVIDIA GH200 96GB HBM3": 900e9,
    "NVIDIA A100-SXM4-40GB": 600e9,
    "NVIDIA A100-SXM4-80GB": 600e9,
    "Tesla V100-SXM2-16GB": 300e9,
    "Tesla V100-SXM2-32GB": 300e9,
    "Tesla P100-SXM2-16GB": 160e9,
}


class Parallel(enum.Enum):
    """How a step of training is divided among GPUs."""

    DATA = "data"
    TENSOR = "tensor"
    PIPELINE = "pipeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """GPUs of one kind that train one model together."""

    kind: Parallel
    gpus: int
    microbatches: int = 1  # of a pipeline
    link_bytes_per_second: float  # of one GPU, both directions together

    def __post_init__(self) -> None:
        assert self.gpus >= 2, self.gpus
        assert self.microbatches >= 1, self.microbatches

    @property
    def message_rate(self) -> float:
        """Bytes a second that one GPU sends."""
        return _SUSTAINED * self.link_bytes_per_second / 2

    def reduce_seconds(self, size: float) -> float:
        """Of one all-reduce of so many bytes."""
        if not size:
            return 0.0
        return _REDUCE_SECONDS + 2 * (self.gpus - 1) / self.gpus * size / self.message_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupForecast:
    """One step of training on a group of GPUs."""

    seconds: float
    low_seconds: float
    high_seconds: float
    exchange_seconds: float  # during which no GPU computes


def link_of(chip: Chip) -> float:
    """NVLink's bytes a second, both directions together.

    Raises:
        UsageError: the GPU has none that is known here.
    """
    name = chip.name.partition(" MIG ")[0]
    if chip.is_instance or name not in _LINKS:
        cause = f"how {chip.name} GPUs are linked is not known"
        raise UsageError(cause, "give --link, in GB/s of both directions together")
    return _LINKS[name]


def group_batch(batch: int, kind: Parallel, gpus: int, microbatches: int) -> int:
    """The batch that one GPU works on at a time.

    Raises:
        UsageError: the whole batch can't be divided so.
    """
    parts = {Parallel.DATA: gpus, Parallel.TENSOR: 1, Parallel.PIPELINE: microbatches}[kind]
    if batch % parts:
        raise UsageError(f"a batch of {batch} can't be divided by {parts}", "give a multiple")
    return batch // parts


def together(one: ModelForecast, graph: Graph, group: Group) -> GroupForecast:
    """A group's step from the forecast of what one GPU of it runs.

    Args:
        one: of `graph` on one GPU.
        graph: at the batch of `group_batch`; for tensor parallel, divided among the GPUs.
        group: the GPUs.
    """
    if group.kind is Parallel.PIPELINE:
        seconds, exchange = _pipeline(one, graph, group)
    elif group.kind is Parallel.TENSOR:
        exchange = _tensor_exchange(graph, group)
        seconds = one.seconds + exchange
    else:
        exchange = _data_exchange(one, graph, group)
        seconds = one.seconds + exchange
    return GroupForecast(
        seconds=seconds,
        low_seconds=seconds * one.low_seconds / one.seconds,
        high_seconds=seconds * one.high_seconds / one.seconds,
        exchange_seconds=exchange,
    )


def _tensor_exchange(graph: Graph, group: Group) -> float:
    return sum(
        times
        * (
            group.reduce_seconds(operator.forward_reduced_bytes)
            + group.reduce_seconds(operator.backward_reduced_bytes)
        )
        for operator, times in graph.operators()
    )


def _data_exchange(one: ModelForecast, graph: Graph, group: Group) -> float:
    """What is left of the reductions after the backward pass."""
    first = FLOAT_BYTES * sum(each.parameters for each in graph.blocks[0].operators)
    others = FLOAT_BYTES * graph.parameters - first
    hidden = group.reduce_seconds(others)
    return max(0.0, hidden - one.backward.seconds) + group.reduce_seconds(first)


def _pipeline(one: ModelForecast, graph: Graph, group: Group) -> tuple[float, float]:
    stages = _stages(one, group.gpus)
    seconds = 0.0
    for passes in zip(*stages, strict=True):
        turns = [each.seconds for each in passes]
        seconds += sum(turns) + (group.microbatches - 1) * max(turns)
    crossings = 2 * (group.gpus - 1 + group.microbatches - 1)
    exchange = crossings * graph.boundary_bytes / group.message_rate
    return seconds + exchange, exchange


def _stages(one: ModelForecast, count: int) -> list[tuple[Pass, Pass]]:
    """Forward and backward of each stage: as many repeated layers each, in order.

    Raises:
        UsageError: there are fewer layers than stages.
    """
    layers = sum(each.block.times for each in one.blocks if each.block.times > 1)
    if layers < count:
        raise UsageError(f"{layers} layers can't be divided among {count} GPUs", "give fewer GPUs")
    stages: list[list[tuple[Pass, Pass]]] = [[] for _ in range(count)]
    done = 0
    for each in one.blocks:
        for _ in range(each.block.times):
            stages[min(count - 1, done * count // layers)].append((each.forward, each.backward))
            done += each.block.times > 1
    return [
        (total(forward for forward, _ in stage), total(backward for _, backward in stage))
        for stage in stages
    ]
