"""Kinds that a name alone cannot tell apart, from the arguments' shapes."""

from __future__ import annotations

from collections.abc import Sequence

from tune_farm.tuner.types import TensorSpec


def refined_kind(kind: str, arguments: Sequence[TensorSpec]) -> str:
    """`depthwise_conv2d` and `grouped_conv2d` for `conv2d`, `batch_matmul` for `matmul`."""
    if kind == "conv2d" and len(arguments) > 2:
        return _convolution_kind(arguments)
    if kind == "matmul":
        operands = [spec for spec in arguments if not spec.is_output][:2]
        batched = [spec for spec in operands if len(spec.shape) > 2]
        return "batch_matmul" if len(batched) == 2 else "matmul"
    return kind


def _convolution_kind(arguments: Sequence[TensorSpec]) -> str:
    four = [spec.shape for spec in arguments if len(spec.shape) == 4]
    if len(four) < 3:
        return "conv2d"
    data, kernel = four[0], four[1]
    if kernel[1] == data[1]:
        return "conv2d"
    return "depthwise_conv2d" if kernel[1] == 1 else "grouped_conv2d"
