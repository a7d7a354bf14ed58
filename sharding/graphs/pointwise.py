"""Operators with one result for each element, as PyTorch launches them, forward and back.

Each kernel moves every operand once: an operand that is broadcast costs its own bytes, a mask one
byte an element. The backward kernels are those of PyTorch's derivatives.yaml.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest

from tune_farm.sharding.graphs import launches
from tune_farm.sharding.graphs.launches import FLOAT_BYTES
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor
from tune_farm.tuner.predictor.forecast.kernels import Kernel

_MASK_BYTES = 1


def add(tape: Tape, name: str, a: Tensor, b: Tensor, *, operation: str = "add") -> Tensor:
    """The sum (or difference) of two tensors; a gradient of what was broadcast is reduced."""
    shape = broadcast(a.shape, b.shape)
    backward = [kernel for each in (a, b) for kernel in _reduced(each, shape)]
    return function(tape, name, operation, (a, b), backward)


def multiply(tape: Tape, name: str, a: Tensor, b: Tensor, *, operation: str = "mul") -> Tensor:
    """The product (or quotient) of two tensors: each gradient is the other times what comes."""
    shape = broadcast(a.shape, b.shape)
    written = FLOAT_BYTES * math.prod(shape)
    backward = []
    for each, other in ((a, b), (b, a)):
        if each.needs_gradient:
            backward.append(_kernel(shape, operation, 2 * written + other.bytes))
            backward += _reduced(each, shape)
    return function(tape, name, operation, (a, b), backward)


def weighted(tape: Tape, name: str, x: Tensor) -> Tensor:
    """The product with a trained vector along the last axis."""
    moved = 2 * x.bytes + FLOAT_BYTES * x.columns
    backward = [_kernel(x.shape, "mul", 3 * x.bytes), launches.reduction(x.columns, x.rows)]
    if x.needs_gradient:
        backward.append(_kernel(x.shape, "mul", moved))
    return tape.record(
        name,
        x.shape,
        reads=[x],
        forward=[_kernel(x.shape, "mul", moved)],
        backward=backward,
        parameters=[x.columns],
    )


def scaled(tape: Tape, name: str, x: Tensor, *, operation: str = "mul") -> Tensor:
    """The product or quotient with a number."""
    return function(tape, name, operation, (x,), [_kernel(x.shape, operation, 2 * x.bytes)])


def shifted(tape: Tape, name: str, x: Tensor) -> Tensor:
    """The sum with a number: the gradient passes as it is."""
    return function(tape, name, "add", (x,), [])


def power(tape: Tape, name: str, x: Tensor) -> Tensor:
    """A power with a number as exponent: back, the power below, its factor, and the product."""
    backward = [
        _kernel(x.shape, "pow", 2 * x.bytes),
        _kernel(x.shape, "mul", 2 * x.bytes),
        _kernel(x.shape, "mul", 3 * x.bytes),
    ]
    return function(tape, name, "pow", (x,), backward)


def activation(tape: Tape, name: str, x: Tensor, operation: str) -> Tensor:
    """A function of one element whose derivative is one kernel: it reads a value and a gradient."""
    return function(tape, name, operation, (x,), [_kernel(x.shape, operation, 3 * x.bytes)])


def gelu_by_tanh(tape: Tape, name: str, x: Tensor) -> Tensor:
    """GELU's approximation as Hugging Face's GPT-2 writes it out: eight kernels."""
    half = scaled(tape, f"{name}.half", x)
    cube = power(tape, f"{name}.cube", x)
    cube = scaled(tape, f"{name}.scaled cube", cube)
    inner = add(tape, f"{name}.sum", x, cube)
    inner = scaled(tape, f"{name}.scaled sum", inner)
    inner = activation(tape, f"{name}.tanh", inner, "tanh")
    inner = shifted(tape, f"{name}.shifted", inner)
    return multiply(tape, name, half, inner)


def masked(tape: Tape, name: str, x: Tensor, mask_elements: int) -> Tensor:
    """Elements that a mask lets pass, others a number: `where`, and again for the gradient."""
    kernel = _kernel(x.shape, "where", 2 * x.bytes + _MASK_BYTES * mask_elements)
    return tape.record(name, x.shape, reads=[x], forward=[kernel], backward=[kernel])


def maximum(tape: Tape, name: str, x: Tensor) -> Tensor:
    """The larger of each element and a number on the device (`torch.max` of two tensors).

    Back: where(x == y, grad / 2, grad).masked_fill(x < y, 0), which are five kernels.
    """
    mask = _MASK_BYTES * x.elements
    backward = [
        _kernel(x.shape, "eq", x.bytes + mask),
        _kernel(x.shape, "div", 2 * x.bytes),
        _kernel(x.shape, "where", 3 * x.bytes + mask),
        _kernel(x.shape, "lt", x.bytes + mask),
        _kernel(x.shape, "where", 2 * x.bytes + mask),
    ]
    return function(tape, name, "max", (x,), backward)


def dropout(tape: Tape, name: str, x: Tensor) -> Tensor:
    """In training one kernel that writes result and mask; in inference nothing."""
    if not tape.training:
        return x
    kernel = _kernel(x.shape, "dropout", 2 * x.bytes + _MASK_BYTES * x.elements)
    return tape.record(name, x.shape, reads=[x], forward=[kernel], backward=[kernel])


def small(tape: Tape, name: str, shape: Sequence[int], bytes_each: Sequence[float]) -> Tensor:
    """Kernels that prepare masks and positions; nobody wants a gradient of them.

    Args:
        tape: where they are noted.
        name: of all of them.
        shape: of what each writes.
        bytes_each: what each moves for one element.
    """
    elements = math.prod(shape)
    forward = [_kernel(shape, "add", round(each * elements)) for each in bytes_each]
    return tape.record(name, shape, forward=forward, differentiable=False)


def function(
    tape: Tape, name: str, operation: str, operands: Sequence[Tensor], backward: Sequence[Kernel]
) -> Tensor:
    """One kernel that reads all operands and writes a result of their common shape."""
    shape = broadcast(*(each.shape for each in operands))
    moved = sum(each.bytes for each in operands) + FLOAT_BYTES * math.prod(shape)
    forward = [_kernel(shape, operation, moved)]
    return tape.record(name, shape, reads=operands, forward=forward, backward=backward)


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that all of them are stretched to, by NumPy's rule."""
    sizes = zip_longest(*(tuple(reversed(shape)) for shape in shapes), fillvalue=1)
    return tuple(reversed([max(each) for each in sizes]))


def _kernel(shape: Sequence[int], operation: str, moved_bytes: int) -> Kernel:
    columns = shape[-1] if shape else 1
    return launches.elementwise(math.prod(shape) // columns, columns, operation, moved_bytes)


def _reduced(operand: Tensor, shape: Sequence[int]) -> list[Kernel]:
    """The sum that a broadcast operand's gradient takes."""
    times = math.prod(shape) // operand.elements
    if not operand.needs_gradient or times == 1:
        return []
    return [launches.reduction(operand.elements, times)]
