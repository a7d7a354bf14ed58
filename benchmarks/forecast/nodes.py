"""Nodes of measured models as kernels, by rules that were fixed before any of them was scored.

A node is timed with its inputs as they lie in memory. `torch.matmul` of four dimensions makes three
of them: with more than one sequence an operand that was permuted or transposed cannot be viewed so
and is copied first. `torch.bmm` (OPT) takes what it gets. Operands that are broadcast count the
bytes that they have.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.forecast.data import plain_operation, read
from tune_farm.sharding.graphs import launches
from tune_farm.tuner.predictor.forecast.kernels import Kernel, KernelKind

_MOVED_AXES = ("permute", "transpose")
_NAMED = {"softmax": KernelKind.SOFTMAX, "ln": KernelKind.LAYER_NORM}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A forward operator of a model as timed on a GPU, and what others predicted."""

    gpu: str
    graph: str
    name: str
    kind: KernelKind
    kernels: tuple[Kernel, ...]
    seconds: float
    neusight_seconds: float
    roofline_seconds: float

    @property
    def is_inference(self) -> bool:
        """Whether the graph is of inference: training graphs have the same forward operators."""
        return "-inf-" in self.graph


def timed_nodes(data: Path) -> Iterator[Node]:
    """Nodes of the five classes that kernels were measured of."""
    operators = {(each["graph"], each["idx"]): each for each in read(data / "model_graphs.csv.gz")}
    for label in read(data / "model_op_labels.csv.gz"):
        item = operators[label["graph"], label["idx"]]
        kernels = kernels_of(item)
        seconds = float(label["fw_ms"]) / 1e3
        if kernels and seconds > 0:
            yield Node(
                gpu=label["device"],
                graph=label["graph"],
                name=item["name"],
                kind=kernels[-1].kind,
                kernels=kernels,
                seconds=seconds,
                neusight_seconds=float(label["neusight_fw_ms"]) / 1e3,
                roofline_seconds=float(label["roofline_fw_ms"]) / 1e3,
            )


def kernels_of(item: Mapping[str, str]) -> tuple[Kernel, ...]:
    """What a node launches; nothing where it is of another class."""
    operators = json.loads(item["fw_ops"])
    if len(operators) != 1:
        return ()
    name, sizes = operators[0]
    if name == "BMM":
        batch, rows, depth, columns = sizes
        return (*_copies(item), launches.product(batch, rows, depth, columns))
    if name == "Linear":
        rows, depth, columns = sizes
        return (launches.linear(rows, depth, columns, has_bias=False),)
    if name.startswith("VEC"):
        operation = plain_operation(name.removeprefix("VEC"))
        inputs = json.loads(item["input_shapes"])
        moved = 4 * (sum(map(math.prod, inputs)) + math.prod(json.loads(item["output_shape"])))
        rows, columns = sizes
        kind = _NAMED.get(operation, KernelKind.ELEMENTWISE)
        if kind is not KernelKind.ELEMENTWISE:
            moved = 8 * rows * columns
        return (
            Kernel(kind=kind, rows=rows, columns=columns, moved_bytes=moved, operation=operation),
        )
    return ()


def _copies(item: Mapping[str, str]) -> list[Kernel]:
    """Of operands of `matmul` that cannot be viewed with their first two dimensions as one."""
    inputs = json.loads(item["input_shapes"])
    is_matmul = item["name"].startswith("matmul")
    if not is_matmul or any(len(shape) != 4 or shape[0] == 1 for shape in inputs):
        return []
    moved = sum(name.startswith(_MOVED_AXES) for name in json.loads(item["prev"]))
    # Of one moved operand it is the second: the first are scores, as they were computed.
    copied = inputs[len(inputs) - moved :] if moved else []
    return [
        Kernel(
            kind=KernelKind.COPY,
            rows=math.prod(shape[:-1]),
            columns=shape[-1],
            moved_bytes=8 * math.prod(shape),
        )
        for shape in copied
    ]
