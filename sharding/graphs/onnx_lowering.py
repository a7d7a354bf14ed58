"""What each ONNX operator launches; operators that are not in the table have no forecast."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tune_farm.sharding.graphs import images, launches, memory, norms, pointwise, products
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One ONNX node, its sizes known."""

    name: str
    operator: str
    inputs: tuple[Tensor, ...]  # those that are given, in order
    weights: tuple[bool, ...]  # which of them are trained
    shape: tuple[int, ...]  # of the first result
    item_bytes: int  # of one element of it
    axes: tuple[int, ...] = ()  # `perm` of a transpose
    result_count: int = 1
    takes_bias: bool = False  # this addition's other operand is a product that only it reads
    is_folded: bool = False  # this norm follows a convolution that only it reads

    @property
    def x(self) -> Tensor:
        """The first operand."""
        return self.inputs[0]


Lowering: TypeAlias = Callable[[Tape, Node], Tensor]


def _unary(tape: Tape, node: Node) -> Tensor:
    return pointwise.activation(tape, node.name, node.x, node.operator.lower())


def _sum(tape: Tape, node: Node) -> Tensor:
    if node.takes_bias:
        index = node.weights.index(False)
        x, bias = node.inputs[index], node.inputs[1 - index]
        # Part of the product's last step; its gradient is a sum of rows.
        backward = [launches.reduction(bias.elements, x.elements // bias.elements)]
        return tape.record(node.name, x.shape, reads=[x, bias], forward=(), backward=backward)
    a, b = node.inputs
    if _is_number(b) or _is_number(a):
        return pointwise.shifted(tape, node.name, a if _is_number(b) else b)
    return pointwise.add(tape, node.name, a, b, operation=node.operator.lower())


def _product(tape: Tape, node: Node) -> Tensor:
    operation = node.operator.lower()
    a, b = node.inputs
    if _is_number(b) or _is_number(a):
        x = a if _is_number(b) else b
        return pointwise.scaled(tape, node.name, x, operation=operation)
    return pointwise.multiply(tape, node.name, a, b, operation=operation)


def _power(tape: Tape, node: Node) -> Tensor:
    return pointwise.power(tape, node.name, node.x)


def _comparison(tape: Tape, node: Node) -> Tensor:
    """Any function of several tensors that hands no gradient back, or one like an addition's."""
    moved = sum(each.bytes for each in node.inputs) + node.item_bytes * math.prod(node.shape)
    kernel = launches.elementwise(*_rows(node.shape), node.operator.lower(), moved)
    return tape.record(
        node.name,
        node.shape,
        reads=node.inputs,
        forward=[kernel],
        backward=[kernel],
        item_bytes=node.item_bytes,
        differentiable=node.operator in ("Where", "Max", "Min", "Mean", "Sum"),
    )


def _matmul(tape: Tape, node: Node) -> Tensor:
    a, b = node.inputs
    if len(b.shape) == 2 and node.weights[1]:
        return products.linear(tape, node.name, a, b.shape[1], has_bias=False)
    outer = node.shape[:-2]
    return products.matmul(tape, node.name, _stretched(a, outer), _stretched(b, outer))


def _gemm(tape: Tape, node: Node) -> Tensor:
    has_bias = len(node.inputs) > 2
    return products.linear(tape, node.name, node.x, node.shape[-1], has_bias=has_bias)


def _convolution(tape: Tape, node: Node) -> Tensor:
    has_bias = len(node.inputs) > 2
    weight = node.inputs[1].shape
    return images.convolution(tape, node.name, node.x, weight, node.shape, has_bias=has_bias)


def _pool(tape: Tape, node: Node) -> Tensor:
    return images.pool(tape, node.name, node.x, node.shape)


def _reduction(tape: Tape, node: Node) -> Tensor:
    rows = math.prod(node.shape)
    columns = node.x.elements // rows
    forward = [launches.reduction(rows, columns, node.x.bytes + node.item_bytes * rows)]
    backward = [launches.elementwise(rows, columns, "div", node.x.bytes)]
    return tape.record(
        node.name,
        node.shape,
        reads=[node.x],
        forward=forward,
        backward=backward,
        item_bytes=node.item_bytes,
        differentiable=not node.operator.startswith("Arg"),
    )


def _softmax(tape: Tape, node: Node) -> Tensor:
    return norms.softmax(tape, node.name, node.x)


def _layer_norm(tape: Tape, node: Node) -> Tensor:
    return norms.layer_norm(tape, node.name, node.x)


def _batch_norm(tape: Tape, node: Node) -> Tensor:
    if tape.training or node.is_folded:
        return norms.batch_norm(tape, node.name, node.x)
    return pointwise.scaled(tape, node.name, node.x)


def _reshape(tape: Tape, node: Node) -> Tensor:
    return memory.reshape(tape, node.name, node.x, *node.shape)


def _transpose(_tape: Tape, node: Node) -> Tensor:
    axes = node.axes or tuple(reversed(range(len(node.x.shape))))
    return node.x.permuted(*axes)


def _same(tape: Tape, node: Node) -> Tensor:
    """Dropout, which takes one kernel in training; identity; a cast to the type that x has."""
    if node.operator == "Dropout":
        return pointwise.dropout(tape, node.name, node.x)
    if node.item_bytes == node.x.item_bytes:
        return node.x
    return _comparison(tape, node)


def _part(tape: Tape, node: Node) -> Tensor:
    """A slice or a stretched view: nothing; back, zeros and a copy, or a sum."""
    rows, columns = _rows(node.x.shape)
    backward = [launches.filled(rows, columns), launches.copy(*_rows(node.shape))]
    return tape.record(
        node.name,
        node.shape,
        reads=[node.x],
        forward=(),
        backward=backward,
        item_bytes=node.item_bytes,
    )


def _copied(tape: Tape, node: Node) -> Tensor:
    """What is written once and read once: concatenations, paddings, enlarged images."""
    rows, columns = _rows(node.shape)
    read = min(sum(each.bytes for each in node.inputs), node.item_bytes * rows * columns)
    kernel = launches.copy(rows, columns)
    moved = read + node.item_bytes * rows * columns
    kernel = launches.elementwise(rows, columns, "copy", moved) if moved else kernel
    return tape.record(
        node.name,
        node.shape,
        reads=node.inputs,
        forward=[kernel],
        backward=[kernel],
        item_bytes=node.item_bytes,
    )


def _gather(tape: Tape, node: Node) -> Tensor:
    table = node.x
    if node.weights[0] and len(table.shape) == 2:
        tokens = node.shape[:-1] or (1,)
        found = memory.embedding(tape, node.name, tokens, *table.shape)
        return memory.view(found, *node.shape)
    rows, columns = _rows(node.shape)
    backward = [launches.filled(*_rows(table.shape)), launches.gather(rows, columns)]
    return tape.record(
        node.name,
        node.shape,
        reads=[table],
        forward=[launches.gather(rows, columns)],
        backward=backward,
        item_bytes=node.item_bytes,
    )


def _filled(tape: Tape, node: Node) -> Tensor:
    kernel = launches.filled(*_rows(node.shape))
    return tape.record(
        node.name, node.shape, forward=[kernel], differentiable=False, item_bytes=node.item_bytes
    )


def _is_number(x: Tensor) -> bool:
    return x.elements == 1


def _rows(shape: tuple[int, ...]) -> tuple[int, int]:
    columns = shape[-1] if shape else 1
    return math.prod(shape) // columns, columns


def _stretched(x: Tensor, outer: tuple[int, ...]) -> Tensor:
    """A product's operand with all outer axes; one that is broadcast is read again for each."""
    if x.shape[:-2] == outer:
        return x
    shape = (*outer, *x.shape[-2:])
    return Tensor(
        value=x.value,
        shape=shape,
        strides=_dense(shape),
        base=shape,
        needs_gradient=x.needs_gradient,
        item_bytes=x.item_bytes,
    )


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


_UNARY = (
    "Abs Acos Asin Atan Ceil Celu Clip Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish IsInf IsNaN"
    " LeakyRelu Log Mish Neg Not PRelu Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Softplus"
    " Softsign Sqrt Swish Tan Tanh ThresholdedRelu CumSum Trilu"
)
_COMPARISONS = (
    "And Or Xor Equal Greater GreaterOrEqual Less LessOrEqual Mod Where Max Min Mean Sum BitShift"
)
_REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd"
    " ReduceSum ReduceSumSquare ArgMax ArgMin GlobalAveragePool GlobalMaxPool"
)

#: By the name of the operator, of ONNX's own domain.
LOWERINGS: Mapping[str, Lowering] = {
    **dict.fromkeys(_UNARY.split(), _unary),
    **dict.fromkeys(_COMPARISONS.split(), _comparison),
    **dict.fromkeys(_REDUCTIONS.split(), _reduction),
    **dict.fromkeys(("Add", "Sub"), _sum),
    **dict.fromkeys(("Mul", "Div"), _product),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _reshape),
    **dict.fromkeys(("Identity", "Dropout", "Cast", "CastLike"), _same),
    **dict.fromkeys(("Slice", "Expand", "Split"), _part),
    **dict.fromkeys(
        ("Concat", "Pad", "Tile", "Resize", "Upsample", "DepthToSpace", "SpaceToDepth"), _copied
    ),
    **dict.fromkeys(("ConstantOfShape", "Range", "Shape", "Size"), _filled),
    **dict.fromkeys(("Gather", "GatherElements", "GatherND"), _gather),
    "Pow": _power,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _convolution,
    "LayerNormalization": _layer_norm,
    "BatchNormalization": _batch_norm,
    "Transpose": _transpose,
}
