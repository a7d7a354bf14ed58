"""What one call of an operator costs: arithmetic, memory traffic, length of its sums."""

from __future__ import annotations

import math
from dataclasses import dataclass

import tvm
from tvm import s_tir, tirx
from tvm.ir import Call, TensorLoad
from tvm.ir.prim import expr as prim

from tune_farm.tuner.types import TensorSpec

_ARITHMETIC = (prim.Add, prim.Sub, prim.Mul, prim.Div, prim.Mod, prim.Max, prim.Min)
_BINARY = (
    *_ARITHMETIC,
    *(prim.FloorDiv, prim.FloorMod),
    *(prim.EQ, prim.NE, prim.LT, prim.LE, prim.GT, prim.GE, prim.And, prim.Or),
)
#: Calls that pass a value on instead of computing one.
_FREE_CALLS = ("tirx.reinterpret", "tirx.likely")


class SymbolicSizeError(ValueError):
    """A loop or a buffer has a size that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCost:
    """The cost of one call."""

    flops: float  # floating-point operations; a multiply-add is two
    bytes_moved: int  # bytes of all arguments, each touched once
    reduction_length: int  # longest chain of accumulations into one element; 1 = none


def static_size(value: tvm.ir.Expr | int) -> int:
    """A size as a number.

    Raises:
        SymbolicSizeError: it depends on a dimension that was not given.
    """
    if isinstance(value, int):
        return value
    if isinstance(value, prim.IntImm):
        return int(value)
    raise SymbolicSizeError(str(value))


def _is_float(value: tvm.ir.Expr) -> bool:
    kind = str(value.ty)
    return kind.startswith(("float", "bfloat"))


def _expression_flops(value: tvm.ir.Expr) -> int:
    """Float operations that one evaluation of an expression takes."""
    if isinstance(value, _BINARY):
        own = int(isinstance(value, _ARITHMETIC) and _is_float(value))
        return own + _expression_flops(value.a) + _expression_flops(value.b)
    if isinstance(value, prim.Cast):
        return _expression_flops(value.value)
    if isinstance(value, prim.Select):
        branches = (value.true_value, value.false_value)
        return _expression_flops(value.condition) + max(map(_expression_flops, branches))
    if isinstance(value, prim.Let):
        return _expression_flops(value.value) + _expression_flops(value.body)
    if isinstance(value, TensorLoad):
        return 0  # index arithmetic is on integers
    if isinstance(value, Call):
        name = getattr(value.op, "name", "")
        arguments = [_expression_flops(argument) for argument in value.args]
        if name.endswith("if_then_else"):
            return arguments[0] + max(arguments[1:])
        own = int(_is_float(value) and name not in _FREE_CALLS)
        return own + sum(arguments)
    return 0


class _Walker:
    """Adds up a function's statements."""

    def __init__(self) -> None:
        #: Float operations so far.
        self.flops = 0.0
        #: The largest product of one block's reduction axes so far.
        self.reduction_length = 1

    def visit(self, statement: tvm.tirx.Stmt, times: int) -> None:
        """Add a statement that runs `times` times."""
        if isinstance(statement, tirx.For):
            self.visit(statement.body, times * static_size(statement.extent))
        elif isinstance(statement, tirx.SeqStmt):
            for part in statement.seq:
                self.visit(part, times)
        elif isinstance(statement, s_tir.SBlockRealize):
            self._visit_block(statement.block, times)
        elif isinstance(statement, tirx.BufferStore):
            self.flops += times * _expression_flops(statement.value)
        elif isinstance(statement, tirx.IfThenElse):
            self.flops += times * _expression_flops(statement.condition)
            self.visit(statement.then_case, times)
            if statement.else_case is not None:
                self.visit(statement.else_case, times)
        elif isinstance(statement, (tirx.AttrStmt, tirx.While)):
            self.visit(statement.body, times)
        elif isinstance(statement, (tirx.Bind, tirx.Evaluate)):
            self.flops += times * _expression_flops(statement.value)

    def _visit_block(self, block: s_tir.SBlock, times: int) -> None:
        extents = [
            static_size(axis.dom.extent)
            for axis in block.iter_vars
            if axis.iter_type == tirx.IterVar.CommReduce
        ]
        self.reduction_length = max(self.reduction_length, math.prod(extents))
        # The initial value is written once per output element: never counted, it is a constant.
        self.visit(block.body, times)


def measure_cost(function: tirx.PrimFunc, arguments: tuple[TensorSpec, ...]) -> OperatorCost:
    """Count what one call of a function does.

    Raises:
        SymbolicSizeError: a loop's extent is not a number.
    """
    walker = _Walker()
    walker.visit(function.body, 1)
    moved = sum(math.prod(argument.shape) * dtype_bytes(argument.dtype) for argument in arguments)
    return OperatorCost(
        flops=walker.flops, bytes_moved=moved, reduction_length=walker.reduction_length
    )


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element; types narrower than a byte take a whole one."""
    if dtype == "bool":
        return 1
    return max(1, int(tvm.DataType(dtype).bits) // 8)
