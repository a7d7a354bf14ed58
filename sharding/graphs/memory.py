"""Operators that only move data: copies, embeddings, slices; views are methods of `Tensor`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tune_farm.sharding.graphs import launches
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor


def contiguous(tape: Tape, name: str, x: Tensor) -> Tensor:
    """X in the order of its indices: nothing, or one copy, whose gradient passes as it is."""
    if x.is_contiguous:
        return x
    kernel = launches.copy(x.rows, x.columns, transposed=x.is_transposed)
    return tape.record(name, x.shape, reads=[x], forward=[kernel])


def reshape(tape: Tape, name: str, x: Tensor, *shape: int) -> Tensor:
    """A view where there is one, else a copy."""
    shown = x.viewed(*shape)
    if shown is None:
        shown = contiguous(tape, name, x).viewed(*shape)
    assert shown is not None, (x, shape)
    return shown


def view(x: Tensor, *shape: int) -> Tensor:
    """Like `Tensor.view`, which is an error where a copy would be needed."""
    shown = x.viewed(*shape)
    assert shown is not None, (x, shape)
    return shown


def heads(x: Tensor, count: int) -> Tensor:
    """(batch, tokens, count * size) as (batch, count, tokens, size), for nothing."""
    batch, tokens, hidden = x.shape
    return view(x, batch, tokens, count, hidden // count).permuted(0, 2, 1, 3)


def transposed(x: Tensor) -> Tensor:
    """The last two axes exchanged, for nothing."""
    axes = range(len(x.shape))
    return x.permuted(*axes[:-2], axes[-1], axes[-2])


def first(tape: Tape, name: str, x: Tensor) -> Tensor:
    """The first token of each sample, a view; back, zeros and a copy into them."""
    batch, _, hidden = x.shape
    backward = [launches.filled(x.rows, x.columns), launches.copy(batch, hidden)]
    return tape.record(name, (batch, hidden), reads=[x], forward=(), backward=backward)


def embedding(tape: Tape, name: str, tokens: Sequence[int], table: int, columns: int) -> Tensor:
    """A row of a table for each token.

    Back, the gradient of the whole table is written as zeros, then rows are added to it
    (`embedding_dense_backward`); its sort of the tokens is left out.
    """
    rows = math.prod(tokens)
    return tape.record(
        name,
        (*tokens, columns),
        forward=[launches.gather(rows, columns)],
        backward=[launches.filled(table, columns), launches.gather(rows, columns)],
        parameters=[table * columns],
    )


def mean(tape: Tape, name: str, x: Tensor) -> Tensor:
    """Of the last axis, which stays with one element; back, a quotient written for each element."""
    forward = [launches.reduction(x.rows, x.columns)]
    backward = [launches.elementwise(x.rows, x.columns, "div", x.bytes + 4 * x.rows)]
    return tape.record(name, (*x.shape[:-1], 1), reads=[x], forward=forward, backward=backward)
