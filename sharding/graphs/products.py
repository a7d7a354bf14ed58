"""Products of matrices, as PyTorch hands them to cuBLAS, forward and back."""

from __future__ import annotations

import math

from tune_farm.sharding.graphs import launches
from tune_farm.sharding.graphs.memory import contiguous
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor
from tune_farm.tuner.predictor.forecast.kernels import Kernel


def linear(
    tape: Tape, name: str, x: Tensor, columns: int, *, has_bias: bool = True, tied: bool = False
) -> Tensor:
    """X times a weight, along the last axis; the bias is added in the product's last step.

    A tied weight is that of the word embedding; its gradient is added to the other one.

    Back: a product for x, one for the weight, and the sum of all rows for the bias.
    """
    x = x if x.is_contiguous else contiguous(tape, f"{name}.operand", x)
    rows, depth = x.rows, x.columns
    backward = [launches.linear(rows, columns, depth, has_bias=False)] if x.needs_gradient else []
    backward.append(launches.linear(columns, rows, depth, has_bias=False))
    if has_bias:
        backward.append(launches.reduction(columns, rows))
    result = tape.record(
        name,
        (rows, columns),
        reads=[x],
        forward=[launches.linear(rows, depth, columns, has_bias=has_bias)],
        backward=backward,
        parameters=[depth * columns, columns] if has_bias else [depth * columns],
        tied=tied,
    )
    return _shown(result, (*x.shape[:-1], columns))


def matmul(tape: Tape, name: str, a: Tensor, b: Tensor) -> Tensor:
    """(…, rows, depth) x (…, depth, columns): `torch.matmul`, or `torch.bmm` of three axes.

    With more than three axes it reshapes both operands to three, which copies what is no view: the
    heads of a batch above 1, which lie between the tokens. cuBLAS itself takes a transposed matrix.
    """
    *outer, rows, depth = a.shape
    columns = b.shape[-1]
    batch = math.prod(outer)
    assert b.shape[:-1] == (*outer, depth), (a.shape, b.shape)
    forward: list[Kernel] = []
    for each in (a, b):
        if each.viewed(batch, *each.shape[-2:]) is None:
            forward.append(launches.copy(each.rows, each.columns, transposed=each.is_transposed))
    forward.append(launches.product(batch, rows, depth, columns))
    backward = []
    if a.needs_gradient:
        backward.append(launches.product(batch, rows, columns, depth))
    if b.needs_gradient:
        backward.append(launches.product(batch, depth, rows, columns))
    result = tape.record(
        name, (batch, rows, columns), reads=[a, b], forward=forward, backward=backward
    )
    return _shown(result, (*outer, rows, columns))


def _shown(result: Tensor, shape: tuple[int, ...]) -> Tensor:
    shown = result.viewed(*shape)
    assert shown is not None, (result, shape)
    return shown
