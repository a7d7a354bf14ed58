"""Kinds that a name alone cannot tell apart, from the arguments' shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tune_farm.sharding.layout import Layout
from tune_farm.tuner.types import TensorSpec


def refined_kind(kind: str, arguments: Sequence[TensorSpec], layout: Layout) -> str:
    """`depthwise_conv2d` and `grouped_conv2d` for `conv2d`, `batch_matmul` for `matmul`."""
    if kind == "conv2d" and len(arguments) > 2:
        return _convolution_kind(arguments, layout)
    if kind == "matmul":
        return "batch_matmul" if _is_batched(arguments) else "matmul"
    return kind


def _is_batched(arguments: Sequence[TensorSpec]) -> bool:
    """Whether both operands are stacks of matrices; a packed weight has three dimensions, too."""
    operands = [spec.shape for spec in arguments if not spec.is_output][:2]
    stack = math.prod(arguments[-1].shape[:-2])
    if len(operands) < 2:  # a matrix times itself is passed once
        return len(operands[0]) > 2
    first, second = operands
    return len(first) > 2 and len(second) > 2 and math.prod(second[:-2]) in (1, stack)


def _convolution_kind(arguments: Sequence[TensorSpec], layout: Layout) -> str:
    four = [spec.shape for spec in arguments if len(spec.shape) == 4]
    is_packed = any(len(spec.shape) > 4 for spec in arguments)  # only where channels are summed up
    if is_packed or len(four) < 3:
        return "conv2d"
    data, kernel = four[0], four[1]
    channels, summed = (data[3], kernel[2]) if layout is Layout.PACKED else (data[1], kernel[1])
    if summed == channels:
        return "conv2d"
    return "depthwise_conv2d" if summed == 1 else "grouped_conv2d"
