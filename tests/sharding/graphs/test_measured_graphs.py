"""The products of our graphs against those of the models that NeuSight's authors traced."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tune_farm.sharding.graphs.operator import Graph, Wanted
from tune_farm.sharding.graphs.registry import graph_of
from tune_farm.tuner.predictor.forecast.kernels import Kernel, KernelKind

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "neusight"
GRAPHS = {
    "gpt2-large": ("gpt2_large-inf-1024-4", "gpt2_large-train-1024-1", "gpt2_large-train-1024-4"),
    "gpt3-xl": ("gpt3_xl-inf-2048-8", "gpt3_xl-train-2048-1", "gpt3_xl-train-2048-2"),
    "opt-1.3b": ("opt_13-inf-2048-8", "opt_13-train-2048-1", "opt_13-train-2048-2"),
    "bert-large": ("bert_large-inf-512-16", "bert_large-inf-512-8"),
    "switch-transformer": ("switchxl4-inf-512-1", "switchxl4-train-512-2"),
}
LAYERS = {"gpt2-large": 36, "gpt3-xl": 24, "opt-1.3b": 24, "bert-large": 24}

Product = tuple[int, ...]  # batch, rows, depth, columns

pytestmark = pytest.mark.skipif(
    not (DATA / "model_graphs.csv.gz").is_file(), reason=f"{DATA} is not there"
)


@cache
def traced() -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    with gzip.open(DATA / "model_graphs.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["graph"], []).append(row)
    return found


def of_kernels(kernels: tuple[Kernel, ...]) -> list[Product]:
    kinds = (KernelKind.LINEAR, KernelKind.BATCHED_PRODUCT)
    return [(k.batch, k.rows, k.depth, k.columns) for k in kernels if k.kind in kinds]


def ours(graph: Graph) -> Iterator[tuple[list[Product], list[Product]]]:
    """Forward and backward of each operator that has a product."""
    for block in graph.blocks:
        for _ in range(block.times):
            for operator in block.operators:
                if forward := of_kernels(operator.forward):
                    yield forward, of_kernels(operator.backward)


def in_order(rows: list[dict[str, str]], layers: int) -> Iterator[dict[str, str]]:
    inside = [index for index, row in enumerate(rows) if row["in_layer"] == "1"]
    if not inside:
        yield from rows
        return
    first, last = inside[0], inside[-1] + 1
    yield from rows[:first]
    for _ in range(layers):
        yield from rows[first:last]
    yield from rows[last:]


def theirs(
    rows: list[dict[str, str]], layers: int
) -> Iterator[tuple[list[Product], list[Product]]]:
    for row in in_order(rows, layers):
        forward, backward = products(row)
        if forward:
            yield forward, backward


def products(row: dict[str, str]) -> tuple[list[Product], list[Product]]:
    """Forward and backward; some products of four axes are listed as linears of all rows."""
    if row["name"].startswith("matmul"):
        a, b = json.loads(row["input_shapes"])
        batch, (rows, depth), columns = math.prod(a[:-2]), a[-2:], b[-1]
        back: list[Product] = [(batch, rows, columns, depth), (batch, depth, rows, columns)]
        return [(batch, rows, depth, columns)], back if json.loads(row["bw_ops"]) else []
    return listed(row["fw_ops"]), listed(row["bw_ops"])


def listed(operators: str) -> list[Product]:
    """The products among operators of a graph."""
    return [
        tuple(sizes) if kind == "BMM" else (1, *sizes)
        for kind, sizes in json.loads(operators)
        if kind in ("BMM", "Linear")
    ]


@pytest.mark.parametrize(
    ("model", "graph"), [(model, graph) for model, graphs in GRAPHS.items() for graph in graphs]
)
def test_products_are_those_that_were_traced(model: str, graph: str) -> None:
    _, mode, sequence, batch = graph.split("-")
    wanted = Wanted(batch=int(batch), sequence=int(sequence), training=mode == "train")
    found = list(ours(graph_of(model, wanted)))
    expected = list(theirs(traced()[graph], LAYERS.get(model, 1)))
    assert [forward for forward, _ in found] == [forward for forward, _ in expected]
    assert [backward for _, backward in found] == [backward for _, backward in expected]
