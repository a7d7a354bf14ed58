from __future__ import annotations

import pytest

from tune_farm.sharding.graphs import norms, pointwise
from tune_farm.sharding.graphs.fusion import fused
from tune_farm.sharding.graphs.operator import Block, Graph, Operator, Wanted
from tune_farm.sharding.graphs.products import linear
from tune_farm.sharding.graphs.registry import graph_of
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.predictor.forecast.kernels import KernelKind

SHAPE = (2, 8, 16)
ELEMENTS = 256


def joined(block: Block) -> tuple[Operator, ...]:
    graph = Graph(name="", blocks=(block,), batch=1, sequence=None, training=False)
    return fused(graph).blocks[0].operators


def test_a_chain_moves_what_enters_and_leaves() -> None:
    tape = Tape(training=False)
    x, mask = tape.input(*SHAPE), tape.input(2, 1, 16)
    y = pointwise.scaled(tape, "scaled", x)
    y = pointwise.add(tape, "masked", y, mask)
    norms.softmax(tape, "softmax", y)
    (operator,) = joined(tape.block("block"))
    (kernel,) = operator.forward
    assert operator.name == "scaled + masked + softmax"
    assert kernel.kind is KernelKind.SOFTMAX
    assert kernel.moved_bytes == 8 * ELEMENTS + 4 * 32


def test_what_two_of_a_group_read_enters_once() -> None:
    tape = Tape(training=False)
    pointwise.gelu_by_tanh(tape, "gelu", tape.input(*SHAPE))
    (operator,) = joined(tape.block("block"))
    assert operator.forward[0].moved_bytes == 8 * ELEMENTS


def test_a_mask_is_still_read() -> None:
    tape = Tape(training=False)
    y = pointwise.scaled(tape, "scaled", tape.input(*SHAPE))
    pointwise.masked(tape, "masked", y, 128)
    (operator,) = joined(tape.block("block"))
    assert operator.forward[0].moved_bytes == 8 * ELEMENTS + 128


def test_what_others_read_is_written() -> None:
    tape = Tape(training=False)
    y = pointwise.scaled(tape, "read twice", tape.input(*SHAPE))
    pointwise.add(tape, "sum", y, pointwise.shifted(tape, "shifted", y))
    names = [each.name for each in joined(tape.block("block"))]
    assert names == ["read twice", "shifted + sum"]

    tape = Tape(training=False)
    y = pointwise.scaled(tape, "result", tape.input(*SHAPE))
    pointwise.shifted(tape, "shifted", y)
    assert len(joined(tape.block("block", y))) == 2


def test_a_product_and_two_that_reduce_rows_stay_apart() -> None:
    tape = Tape(training=False)
    y = linear(tape, "linear", tape.input(*SHAPE), 16)
    y = norms.softmax(tape, "softmax", y)
    norms.layer_norm(tape, "norm", y)
    assert len(joined(tape.block("block"))) == 3


def test_training_is_refused() -> None:
    with pytest.raises(UsageError, match="fusion is forecast for inference only"):
        fused(graph_of("gpt2-large", Wanted(training=True)))


def test_a_model_keeps_its_products_and_moves_less() -> None:
    graph = graph_of("bert-large", Wanted(batch=8, sequence=512))
    kernels = {
        name: [kernel for operator, _ in each.operators() for kernel in operator.forward]
        for name, each in (("plain", graph), ("fused", fused(graph)))
    }
    products = {name: [each for each in found if each.depth > 1] for name, found in kernels.items()}
    moved = {name: sum(each.moved_bytes for each in found) for name, found in kernels.items()}
    assert products["plain"] == products["fused"]
    assert moved["fused"] < 0.8 * moved["plain"]
