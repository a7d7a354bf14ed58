"""Moves big constants out of a Relax module, so that its text stays small enough to send."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

#: Constants with more elements become parameters; the rest is a few kilobytes of the module.
INLINE_ELEMENTS = 1024


@mutator
class _ConstantLifter(PyExprMutator):  # type: ignore[misc]
    """Replaces each big constant by a variable; the same constant gets the same variable."""

    def __init__(self, module: tvm.IRModule) -> None:
        super().__init__(module)
        self.variables: list[relax.Var] = []
        self.constants: list[tvm.ir.GenericConst] = []

    def visit_generic_const_(self, op: tvm.ir.GenericConst) -> tvm.ir.Expr:
        """Lift one constant."""
        if not isinstance(op.ty, relax.TensorType):
            return op
        shape = op.value.shape
        if math.prod(int(dim) for dim in shape) <= INLINE_ELEMENTS:
            return op
        for variable, known in zip(self.variables, self.constants, strict=True):
            if known.same_as(op):
                return variable
        variable = relax.Var(f"weight_{len(self.variables)}", op.ty)
        self.variables.append(variable)
        self.constants.append(op)
        return variable


def externalize_constants(
    module: tvm.IRModule, *, input_count: int
) -> tuple[tvm.IRModule, tuple[npt.NDArray[np.generic], ...]]:
    """Turn the big constants of `main` into trailing parameters.

    Args:
        module: not modified.
        input_count: parameters of `main` that are the model's inputs; runtimes read it.

    Returns:
        The new module and the values of its new parameters, in order.
    """
    lifter = _ConstantLifter(module)
    main = module["main"]
    body = lifter.visit_expr(main.body)
    changed = relax.Function(
        [*main.params, *lifter.variables],
        body,
        main.ret_ty,
        main.is_pure,
        main.attrs,
    )
    result = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    result["main"] = changed.with_attr("num_input", input_count)
    result = relax.transform.Normalize()(result)
    return result, tuple(constant.value.numpy() for constant in lifter.constants)
