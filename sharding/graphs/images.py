"""Operators on images (batch, channels, height, width): convolutions and pools.

A convolution is an implicit GEMM: a product of its patches, which are never written, and its
weight. No convolution was measured for the predictor, so its kernels are labelled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tune_farm.sharding.graphs import launches
from tune_farm.sharding.graphs.launches import FLOAT_BYTES
from tune_farm.sharding.graphs.operator import CONVOLUTION
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor
from tune_farm.tuner.predictor.forecast.kernels import Kernel, KernelKind


def convolution(
    tape: Tape,
    name: str,
    x: Tensor,
    weight: Sequence[int],
    shape: Sequence[int],
    *,
    has_bias: bool = True,
) -> Tensor:
    """A convolution of one or two (or three) dimensions, also grouped.

    Args:
        tape: where it is noted.
        name: of the operator.
        x: (batch, channels, …).
        weight: (channels out, channels in of a group, …).
        shape: of the result.
        has_bias: whether one is added, in the same kernel; back, its gradient is a sum.
    """
    groups = x.shape[1] // weight[1]
    taps = math.prod(weight[2:])
    patches = shape[0] * math.prod(shape[2:])
    inputs = x.shape[0] * math.prod(x.shape[2:])
    moved = x.bytes + FLOAT_BYTES * (math.prod(weight) + math.prod(shape))
    out, into = weight[0] // groups, weight[1]
    forward = [_gemm(groups, patches, into * taps, out, moved)]
    # Strided, each input meets only some of the taps: the work is that of the forward product.
    met = max(1, out * taps * patches // inputs)
    backward = [_gemm(groups, inputs, met, into, moved)] if x.needs_gradient else []
    backward.append(_gemm(groups, out, patches, into * taps, moved))
    if has_bias:
        backward.append(launches.reduction(weight[0], patches))
    return tape.record(
        name,
        shape,
        reads=[x],
        forward=forward,
        backward=backward,
        parameters=[math.prod(weight), weight[0]] if has_bias else [math.prod(weight)],
        label=CONVOLUTION,
    )


def pool(tape: Tape, name: str, x: Tensor, shape: Sequence[int]) -> Tensor:
    """A maximum or mean of windows: each input is read once from memory; back, read and written."""
    result = math.prod(shape)
    rows = result // shape[-1]
    moved = x.bytes + FLOAT_BYTES * result
    forward = [launches.elementwise(rows, shape[-1], "pool", moved)]
    backward = [launches.elementwise(rows, shape[-1], "pool", moved + FLOAT_BYTES * result)]
    return tape.record(name, shape, reads=[x], forward=forward, backward=backward)


def pool_all(tape: Tape, name: str, x: Tensor, shape: Sequence[int]) -> Tensor:
    """The mean of each channel."""
    rows = math.prod(shape)
    forward = [launches.reduction(rows, x.elements // rows)]
    backward = [launches.elementwise(rows, x.elements // rows, "div", x.bytes)]
    return tape.record(name, shape, reads=[x], forward=forward, backward=backward)


def _gemm(groups: int, rows: int, depth: int, columns: int, moved_bytes: int) -> Kernel:
    return Kernel(
        kind=KernelKind.LINEAR if groups == 1 else KernelKind.BATCHED_PRODUCT,
        batch=groups,
        rows=rows,
        depth=depth,
        columns=columns,
        moved_bytes=moved_bytes,
        operation=CONVOLUTION,
    )
