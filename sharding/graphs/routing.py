"""A layer of experts, of which a router gives each token one (Fedus et al. 2021, Switch).

As Hugging Face's `SwitchTransformersSparseMLP`: experts run one after the other, each on a buffer
of its capacity. Where a mask picks tokens, the host waits to learn how many they are. How many an
expert gets depends on the input; here each gets as many as it takes.
"""

from __future__ import annotations

from tune_farm.sharding.graphs import launches, norms, pointwise
from tune_farm.sharding.graphs.products import linear
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor
from tune_farm.tuner.predictor.forecast.kernels import Kernel

_CAPACITY = 64  # tokens of a sample that an expert takes: Hugging Face's default


def sparse_mlp(tape: Tape, name: str, x: Tensor, *, experts: int, inner: int) -> Tensor:
    """The experts' results, each times its router's probability."""
    batch, tokens, hidden = x.shape
    chance = _router(tape, f"{name}.router", x, experts)
    rows = batch * min(_CAPACITY, tokens)
    result = tape.record(f"{name}.clone", x.shape, reads=[x], forward=[_copy(x)])
    tape.record(f"{name}.buffer", (rows, hidden), forward=[launches.filled(rows, hidden)])
    for index in range(experts):
        expert = f"{name}.expert {index}"
        given = _picked(tape, f"{expert}.tokens", x, rows)
        wide = linear(tape, f"{expert}.up", given, inner, has_bias=False)
        wide = pointwise.activation(tape, f"{expert}.relu", wide, "relu")
        wide = pointwise.dropout(tape, f"{expert}.dropout", wide)
        narrow = linear(tape, f"{expert}.down", wide, hidden, has_bias=False)
        result = _put(tape, f"{expert}.results", result, narrow)
    return pointwise.multiply(tape, f"{name}.weighted", result, chance)


def _router(tape: Tape, name: str, x: Tensor, experts: int) -> Tensor:
    """The probability of the expert that each token goes to: (batch, tokens, 1)."""
    batch, tokens, _ = x.shape
    seen = x
    if tape.training:
        noise = pointwise.small(tape, f"{name}.noise", x.shape, [4])
        seen = pointwise.multiply(tape, f"{name}.jitter", x, noise)
    logits = linear(tape, f"{name}.classifier", seen, experts, has_bias=False)
    chances = norms.softmax(tape, f"{name}.softmax", logits)
    # The largest; one hot, as zeros and a one; a running count, compared; the product; the largest.
    masks = [4, 8, 8, 16, 9, 17, 8]
    pointwise.small(tape, f"{name}.choice", (batch, tokens, experts), masks)
    rows = batch * tokens
    forward = [launches.reduction(rows, experts)]
    backward = [launches.filled(rows, experts), launches.copy(rows, 1)]
    shape = (batch, tokens, 1)
    return tape.record(f"{name}.chance", shape, reads=[chances], forward=forward, backward=backward)


def _picked(tape: Tape, name: str, x: Tensor, rows: int) -> Tensor:
    """The tokens that a mask picks, in a buffer: found, gathered, and copied into its beginning."""
    hidden = x.columns
    taken = launches.gather(rows, hidden)
    forward = [*_found(x.rows), *_found(x.rows), taken, launches.copy(rows, hidden)]
    backward = [launches.copy(rows, hidden), launches.filled(x.rows, hidden), taken]
    shape = (rows, hidden)
    # One wait for the count that limits the slice, one for the mask's own.
    return tape.record(name, shape, reads=[x], forward=forward, backward=backward, waits=2)


def _put(tape: Tape, name: str, into: Tensor, rows: Tensor) -> Tensor:
    """Results where their tokens were; back, a copy with zeros there, and a gather of the rest."""
    taken = launches.gather(rows.rows, rows.columns)
    forward = [*_found(into.rows), taken]
    backward = [_copy(into), launches.filled(rows.rows, rows.columns), taken]
    return tape.record(
        name, into.shape, reads=[into, rows], forward=forward, backward=backward, waits=1
    )


def _found(tokens: int) -> list[Kernel]:
    """The places of a mask's ones: as truth values, counted, their prefix sums, selected."""
    return [
        launches.elementwise(1, tokens, "ne", 9 * tokens),
        launches.reduction(1, tokens, tokens),
        launches.reduction(1, tokens, 5 * tokens),
        launches.elementwise(1, tokens, "add", 9 * tokens),
    ]


def _copy(x: Tensor) -> Kernel:
    return launches.copy(x.rows, x.columns)
