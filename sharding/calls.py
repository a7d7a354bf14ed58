"""Which functions a lowered model calls, and how often."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import tvm
from tvm import relax
from tvm.ir import Call, GlobalVar, Op

#: Operators of the graph language that compute no tensor.
_BOOKKEEPING = frozenset(
    {
        "relax.shape_of",
        "relax.shape_to_tensor",
        "relax.tensor_to_shape",
        "relax.null_value",
        "relax.builtin.stop_lift_params",
        "relax.memory.view",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCall:
    """One function and its calls in an inference."""

    name: str
    is_function: bool  # of the module; otherwise something that the runtime provides
    weight: int


def operator_calls(module: tvm.IRModule) -> tuple[OperatorCall, ...]:
    """The functions that a module's `main` calls, in the order of their first call.

    A call in a branch counts as one, taken or not.
    """
    counts: Counter[tuple[str, bool]] = Counter()

    def visit(value: tvm.ir.Expr) -> None:
        if not isinstance(value, Call):
            return
        if isinstance(value.op, GlobalVar):
            counts[value.op.name_hint, True] += 1
        elif isinstance(value.op, relax.ExternFunc):
            counts[value.op.global_symbol, False] += 1
        elif isinstance(value.op, Op) and value.op.name not in _BOOKKEEPING:
            _count_operator(value, counts)

    relax.analysis.post_order_visit(module["main"].body, visit)
    return tuple(
        OperatorCall(name=name, is_function=is_function, weight=weight)
        for (name, is_function), weight in counts.items()
    )


def _count_operator(call: Call, counts: Counter[tuple[str, bool]]) -> None:
    callee = call.args[0] if len(call.args) else None
    if isinstance(callee, GlobalVar):
        counts[callee.name_hint, True] += 1
    elif isinstance(callee, relax.ExternFunc):
        counts[callee.global_symbol, False] += 1
    elif call.op.name.startswith("relax."):
        counts[call.op.name.removeprefix("relax."), False] += 1
