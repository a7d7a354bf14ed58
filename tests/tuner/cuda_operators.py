"""Operators in the forms that GPU sketches differ by, small, for an H100."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from tvm import te, topi

from benchmarks.h100 import H100_TARGET_JSON
from tests.tuner import operators
from tests.tuner.operators import task_of
from tune_farm.tuner.types import Task


def cuda_task(function: Any) -> Task:
    """The task that an operator makes for an H100."""
    return replace(task_of(function), target_json=H100_TARGET_JSON)


@functools.cache
def strided_convolution() -> Any:
    """A 3x3 convolution of stride 2 with bias, residual and ReLU."""
    data = te.placeholder((1, 16, 28, 28), "float32", name="data")
    weight = te.placeholder((32, 16, 3, 3), "float32", name="weight")
    bias = te.placeholder((1, 32, 1, 1), "float32", name="bias")
    residual = te.placeholder((1, 32, 14, 14), "float32", name="residual")
    convolved = topi.nn.conv2d_nchw(data, weight, stride=2, padding=1, dilation=1)
    result = topi.nn.relu(topi.add(topi.add(convolved, bias), residual))
    return te.create_prim_func([data, weight, bias, residual, result])


@functools.cache
def depthwise_convolution() -> Any:
    """Each channel by itself."""
    data = te.placeholder((1, 32, 14, 14), "float32", name="data")
    weight = te.placeholder((32, 1, 3, 3), "float32", name="weight")
    convolved = topi.nn.group_conv2d_nchw(data, weight, 1, 1, 1, 32, "float32")
    return te.create_prim_func([data, weight, convolved])


@functools.cache
def grouped_convolution() -> Any:
    """Eight channels read and make eight others."""
    data = te.placeholder((1, 32, 14, 14), "float32", name="data")
    weight = te.placeholder((32, 8, 3, 3), "float32", name="weight")
    convolved = topi.nn.group_conv2d_nchw(data, weight, 1, 1, 1, 4, "float32")
    return te.create_prim_func([data, weight, convolved])


@functools.cache
def batch_product() -> Any:
    """A batched matrix product."""
    left = te.placeholder((4, 32, 64), "float32", name="left")
    right = te.placeholder((4, 32, 64), "float32", name="right")
    return te.create_prim_func([left, right, topi.nn.batch_matmul(left, right)])


@functools.cache
def pooling() -> Any:
    """The largest of windows."""
    data = te.placeholder((1, 8, 28, 28), "float32", name="data")
    pooled = topi.nn.pool2d(data, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max", layout="NCHW")
    return te.create_prim_func([data, pooled])


@functools.cache
def normalization() -> Any:
    """A layer norm over the last axis: two sums, one of which uses the other."""
    data = te.placeholder((16, 200), "float32", name="data")
    scale = te.placeholder((200,), "float32", name="scale")
    shift = te.placeholder((200,), "float32", name="shift")
    return te.create_prim_func(
        [data, scale, shift, topi.nn.layer_norm(data, scale, shift, axis=[1], epsilon=1e-5)]
    )


@functools.cache
def row_sums() -> Any:
    """Sums that each feed one number: threads may sum together."""
    data = te.placeholder((8, 1000), "float32", name="data")
    return te.create_prim_func([data, topi.exp(topi.sum(data, axis=1))])


@functools.cache
def large_product() -> Any:
    """A matrix product whose tiles can fill more shared memory than a static array may."""
    return operators.matmul(512, 512, 512)


@functools.cache
def half_product(dtype: str = "float16", sums: str = "float32") -> Any:
    """Products of batches with sums of their own type; sizes are no multiples of fragments."""
    left = te.placeholder((3, 40, 72), dtype, name="left")
    right = te.placeholder((3, 64, 72), dtype, name="right")
    k = te.reduce_axis((0, 72), "k")
    product = te.compute(
        (3, 40, 64),
        lambda n, i, j: te.sum(left[n, i, k].astype(sums) * right[n, j, k].astype(sums), axis=k),
        name="product",
    )
    return te.create_prim_func([left, right, topi.cast(topi.nn.relu(product), dtype)])


@functools.cache
def half_convolution() -> Any:
    """A padded 3x3 convolution of half-precision values, channels first, with a residual."""
    data = te.placeholder((1, 32, 14, 14), "float16", name="data")
    weight = te.placeholder((32, 32, 3, 3), "float16", name="weight")
    residual = te.placeholder((1, 32, 14, 14), "float32", name="residual")
    convolved = topi.nn.conv2d_nchw(data, weight, 1, 1, 1, "float32")
    return te.create_prim_func([data, weight, residual, topi.add(convolved, residual)])


ALL = (
    operators.matmul,
    operators.conv2d,
    operators.softmax,
    operators.square_root,
    strided_convolution,
    depthwise_convolution,
    grouped_convolution,
    batch_product,
    pooling,
    normalization,
    row_sums,
)
