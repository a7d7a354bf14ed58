"""Operators that reduce rows and write them again: softmax and the norms."""

from __future__ import annotations

from tune_farm.sharding.graphs import launches, memory, pointwise
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor


def softmax(tape: Tape, name: str, x: Tensor) -> Tensor:
    """Of the last axis; back, one kernel reads result and gradient."""
    forward = [launches.softmax(x.rows, x.columns)]
    backward = [launches.softmax(x.rows, x.columns, backward=True)]
    return tape.record(name, x.shape, reads=[x], forward=forward, backward=backward)


def layer_norm(tape: Tape, name: str, x: Tensor) -> Tensor:
    """Of the last axis, with weight and bias.

    Back, one kernel for the input's gradient, and one for those of weight and bias, which reads
    input and gradient once more and sums over the rows.
    """
    backward = [launches.layer_norm(x.rows, x.columns, backward=True)] if x.needs_gradient else []
    backward.append(launches.reduction(x.columns, x.rows, 2 * x.bytes))
    return tape.record(
        name,
        x.shape,
        reads=[x],
        forward=[launches.layer_norm(x.rows, x.columns)],
        backward=backward,
        parameters=[x.columns, x.columns],
    )


def rms_norm(tape: Tape, name: str, x: Tensor) -> Tensor:
    """T5's norm, as Hugging Face writes it out: square, mean, root, two products."""
    square = pointwise.power(tape, f"{name}.square", x)
    mean = memory.mean(tape, f"{name}.mean", square)
    mean = pointwise.shifted(tape, f"{name}.shifted", mean)
    root = pointwise.power(tape, f"{name}.root", mean)
    normal = pointwise.multiply(tape, f"{name}.normal", x, root)
    return pointwise.weighted(tape, name, normal)


def batch_norm(tape: Tape, name: str, x: Tensor) -> Tensor:
    """Of all axes but the second, in training: statistics, then the norm; inference folds it.

    Forward reads x twice and writes once; back reads x and the gradient twice and writes once.
    """
    if not tape.training:
        return x
    channels = x.shape[1]
    shape = (channels, x.elements // channels)
    forward = [
        launches.reduction(*shape),
        launches.elementwise(*shape, "batch norm", 2 * x.bytes),
    ]
    backward = [
        launches.reduction(*shape, 2 * x.bytes),
        launches.elementwise(*shape, "batch norm", 3 * x.bytes),
    ]
    return tape.record(
        name,
        x.shape,
        reads=[x],
        forward=forward,
        backward=backward,
        parameters=[channels, channels],
    )
