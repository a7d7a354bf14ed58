"""Kernels by shape: the bytes that each moves, every operand and result once."""

from __future__ import annotations

import functools
import math

from tune_farm.tuner.predictor.forecast.kernels import Kernel, KernelKind

FLOAT_BYTES = 4
_COLUMNS = 4096  # of a tensor whose shape does not matter, at most


@functools.cache
def linear(rows: int, depth: int, columns: int, *, has_bias: bool = True) -> Kernel:
    """A product with a weight, in cuBLAS."""
    elements = rows * depth + depth * columns + rows * columns + has_bias * columns
    return Kernel(
        kind=KernelKind.LINEAR,
        rows=rows,
        depth=depth,
        columns=columns,
        moved_bytes=FLOAT_BYTES * elements,
    )


@functools.cache
def product(batch: int, rows: int, depth: int, columns: int) -> Kernel:
    """Products of as many pairs of matrices, in one launch."""
    elements = rows * depth + depth * columns + rows * columns
    return Kernel(
        kind=KernelKind.BATCHED_PRODUCT,
        batch=batch,
        rows=rows,
        depth=depth,
        columns=columns,
        moved_bytes=FLOAT_BYTES * batch * elements,
    )


@functools.cache
def elementwise(rows: int, columns: int, operation: str, moved_bytes: int) -> Kernel:
    """One result for each element."""
    return Kernel(
        kind=KernelKind.ELEMENTWISE,
        rows=rows,
        columns=columns,
        moved_bytes=moved_bytes,
        operation=operation,
    )


@functools.cache
def added(elements: int) -> Kernel:
    """The sum of two tensors, such as gradients: a + b, each of so many elements."""
    columns = math.gcd(elements, _COLUMNS)
    moved = 3 * FLOAT_BYTES * elements
    return elementwise(elements // columns, columns, "add", moved)


@functools.cache
def filled(rows: int, columns: int) -> Kernel:
    """A constant written."""
    return elementwise(rows, columns, "fill", FLOAT_BYTES * rows * columns)


@functools.cache
def softmax(rows: int, columns: int, *, backward: bool = False) -> Kernel:
    """Of each row; backward reads result and gradient, and writes one."""
    return _of_rows(KernelKind.SOFTMAX, rows, columns, backward)


@functools.cache
def layer_norm(rows: int, columns: int, *, backward: bool = False) -> Kernel:
    """Of each row; backward reads input and gradient, and writes the input's."""
    return _of_rows(KernelKind.LAYER_NORM, rows, columns, backward)


@functools.cache
def reduction(rows: int, columns: int, moved_bytes: int | None = None) -> Kernel:
    """A number from each row."""
    moved = FLOAT_BYTES * rows * (columns + 1) if moved_bytes is None else moved_bytes
    return Kernel(kind=KernelKind.REDUCTION, rows=rows, columns=columns, moved_bytes=moved)


@functools.cache
def copy(rows: int, columns: int, *, transposed: bool = False) -> Kernel:
    """Elements read and written; transposed: read across the lines of the source."""
    return Kernel(
        kind=KernelKind.COPY,
        rows=rows,
        columns=columns,
        moved_bytes=2 * FLOAT_BYTES * rows * columns,
        operation="transpose" if transposed else "copy",
    )


@functools.cache
def gather(rows: int, columns: int) -> Kernel:
    """Rows of a table, each by a 64-bit index; only what is taken is read."""
    return Kernel(
        kind=KernelKind.GATHER,
        rows=rows,
        columns=columns,
        moved_bytes=rows * (2 * FLOAT_BYTES * columns + 8),
    )


def _of_rows(kind: KernelKind, rows: int, columns: int, backward: bool) -> Kernel:
    moved = (3 if backward else 2) * FLOAT_BYTES * rows * columns
    return Kernel(
        kind=kind,
        rows=rows,
        columns=columns,
        moved_bytes=moved,
        operation="backward" if backward else "",
    )
