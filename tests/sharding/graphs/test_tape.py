"""What operators launch, forward and back, by the rules of PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tune_farm.sharding.graphs import memory, norms, pointwise
from tune_farm.sharding.graphs.operator import Block, Operator
from tune_farm.sharding.graphs.products import linear, matmul
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor
from tune_farm.tuner.predictor.forecast.kernels import Kernel, KernelKind

BATCH, TOKENS, HIDDEN = 2, 8, 16
ELEMENTS = BATCH * TOKENS * HIDDEN


def only(block: Block) -> Operator:
    (operator,) = block.operators
    return operator


def started(*, training: bool = True) -> tuple[Tape, Tensor]:
    tape = Tape(training=training)
    return tape, tape.input(BATCH, TOKENS, HIDDEN)


def sizes(kernels: tuple[Kernel, ...]) -> list[tuple[int, int, int]]:
    return [(each.rows, each.depth, each.columns) for each in kernels]


def bytes_per_element(kernels: tuple[Kernel, ...]) -> list[float]:
    return [each.moved_bytes / ELEMENTS for each in kernels]


def test_inference_has_no_way_back() -> None:
    tape, x = started(training=False)
    y = linear(tape, "linear", x, 4)
    pointwise.add(tape, "add", y, y)
    block = tape.block("block")
    assert all(not each.backward and not each.accumulation for each in block.operators)


def test_a_linear_goes_back_in_two_products_and_a_sum() -> None:
    tape, x = started()
    operator = only_after(tape, linear(tape, "linear", x, 4))
    assert sizes(operator.forward) == [(16, 16, 4)]
    assert sizes(operator.backward) == [(16, 4, 16), (4, 16, 16), (4, 1, 16)]
    assert operator.backward[2].kind is KernelKind.REDUCTION
    assert [each.moved_bytes for each in operator.accumulation] == [12 * 64, 12 * 4]
    assert operator.parameters == 68


def test_the_first_linear_has_no_gradient_to_hand_on() -> None:
    tape = Tape(training=True)
    x = tape.input(BATCH, TOKENS, HIDDEN, needs_gradient=False)
    operator = only_after(tape, linear(tape, "linear", x, 4, has_bias=False))
    assert sizes(operator.backward) == [(4, 16, 16)]


def only_after(tape: Tape, _result: Tensor) -> Operator:
    return only(tape.block("block"))


@pytest.mark.parametrize(("batch", "copies"), [(1, 0), (2, 2)])
def test_scores_copy_the_heads_of_a_batch(batch: int, copies: int) -> None:
    tape = Tape(training=True)
    query, key = (memory.heads(tape.input(batch, TOKENS, HIDDEN), 4) for _ in range(2))
    scores = matmul(tape, "scores", query, memory.transposed(key))
    operator = only(tape.block("block"))
    kinds = [each.kind for each in operator.forward]
    assert kinds == [KernelKind.COPY] * copies + [KernelKind.BATCHED_PRODUCT]
    assert [each.operation for each in operator.forward[:-1]] == ["copy", "transpose"][:copies]
    assert scores.shape == (batch, 4, TOKENS, TOKENS)
    # Back: two products, and the query's gradient copied to (batch, tokens, hidden). The key's may
    # stay as it is: heads and sizes lie as one.
    back = [each.kind for each in operator.backward]
    assert back == [KernelKind.BATCHED_PRODUCT] * 2 + [KernelKind.COPY]


def test_products_of_three_axes_copy_nothing() -> None:
    tape = Tape(training=False)
    a, b = tape.input(8, TOKENS, 4), tape.input(8, TOKENS, 4)
    matmul(tape, "scores", a, memory.transposed(b))
    assert len(only(tape.block("block")).forward) == 1


def test_an_addition_launches_nothing_back_and_a_fork_one_sum() -> None:
    tape, x = started()
    y = pointwise.shifted(tape, "y", x)
    pointwise.add(tape, "sum", x, y)
    *operators, sums = tape.block("block").operators
    assert [each.backward for each in operators] == [(), ()]
    assert bytes_per_element(sums.backward) == [12]
    assert sums.name == "sums of gradients"


def test_what_others_read_too_gets_a_sum_for_each_reader() -> None:
    tape = Tape(training=True)
    shared = tape.input(BATCH, TOKENS, HIDDEN, shared=True)
    pointwise.shifted(tape, "y", shared)
    assert len(tape.block("block").operators[-1].backward) == 1


@pytest.mark.parametrize(
    ("call", "forward", "backward"),
    [
        (lambda tape, x: norms.softmax(tape, "", x), [8], [12]),
        (lambda tape, x: norms.layer_norm(tape, "", x), [8], [12, 8]),
        (lambda tape, x: pointwise.activation(tape, "", x, "tanh"), [8], [12]),
        (lambda tape, x: pointwise.scaled(tape, "", x), [8], [8]),
        (lambda tape, x: pointwise.power(tape, "", x), [8], [8, 8, 12]),
        (lambda tape, x: pointwise.dropout(tape, "", x), [9], [9]),
        (lambda tape, x: pointwise.masked(tape, "", x, ELEMENTS // 4), [8.25], [8.25]),
        (lambda tape, x: pointwise.maximum(tape, "", x), [8], [5, 8, 13, 5, 9]),
    ],
)
def test_bytes_of_an_element(
    call: Callable[[Tape, Tensor], object], forward: list[float], backward: list[float]
) -> None:
    tape, x = started()
    call(tape, x)
    operator = only(tape.block("block"))
    assert bytes_per_element(operator.forward) == forward
    assert bytes_per_element(operator.backward) == backward


def test_a_broadcast_operand_costs_its_own_bytes_and_its_gradient_a_sum() -> None:
    tape, x = started()
    places = tape.input(1, TOKENS, HIDDEN)
    pointwise.add(tape, "sum", x, places)
    operator = only(tape.block("block"))
    assert bytes_per_element(operator.forward) == [10]
    assert [(each.kind, each.rows, each.columns) for each in operator.backward] == [
        (KernelKind.REDUCTION, TOKENS * HIDDEN, BATCH)
    ]


def test_dropout_is_no_operator_in_inference() -> None:
    tape, x = started(training=False)
    assert pointwise.dropout(tape, "dropout", x) is x
    assert tape.block("block").operators == ()


def test_parts_of_a_split_are_views_and_go_back_as_one() -> None:
    tape, x = started()
    parts = tape.split("split", x, 2)
    assert [each.strides for each in parts] == [x.strides] * 2
    for index, part in enumerate(parts):
        pointwise.scaled(tape, f"scaled {index}", part)
    split, *_ = tape.block("block").operators
    assert split.forward == ()
    assert bytes_per_element(split.backward) == [8]


def test_an_embedding_writes_its_whole_table_back() -> None:
    tape = Tape(training=True)
    memory.embedding(tape, "words", (BATCH, TOKENS), 100, HIDDEN)
    operator = only(tape.block("block"))
    assert operator.forward[0].kind is KernelKind.GATHER
    assert operator.backward[0].moved_bytes == 4 * 100 * HIDDEN
    assert operator.parameters == 100 * HIDDEN


def test_reshape_copies_what_is_no_view() -> None:
    tape, x = started(training=False)
    heads = memory.heads(x, 4)
    memory.reshape(tape, "free", x, BATCH * TOKENS, HIDDEN)
    merged = memory.reshape(tape, "copied", heads.permuted(0, 1, 2, 3), BATCH * 4, TOKENS, 4)
    assert merged.is_contiguous
    assert [each.name for each in tape.block("block").operators] == ["copied"]
