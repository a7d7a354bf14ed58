"""Products and convolutions with operands of 16 bits; sums and all else stay as they are.

Not TVM's `ToMixedPrecision`: that also rounds sums to 16 bits and adds what is constant in them, so
that a model with its weights at hand would become other operators than without.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Call
from tvm.relax.expr_functor import PyExprMutator, mutator

from tune_farm.tuner.errors import UsageError

#: What `--dtype` takes beside the model's own types.
HALF_TYPES = ("float16", "bfloat16")
_WIDE = "float32"
_PRODUCT, _CONVOLUTION = (tvm.ir.Op.get(f"relax.{name}") for name in ("matmul", "nn.conv2d"))
#: What a weight may go through on its way into a product.
_MOVES = tuple(tvm.ir.Op.get(f"relax.{name}") for name in ("permute_dims", "reshape"))


def check_half_precision(dtype: str, target: Any) -> None:
    """Refuse what a target has no fast arithmetic for.

    Raises:
        UsageError: it is no GPU.
    """
    if str(target.kind.name) != "cuda":
        raise UsageError(
            f"{dtype} is for GPUs: on a CPU each value would be made float32 before it is used",
            "leave --dtype out, or give a GPU's --target such as nvidia/nvidia-a100",
        )


def to_half_precision(module: tvm.IRModule, dtype: str, *, input_count: int) -> tvm.IRModule:
    """Convert the operands of float32 products and convolutions.

    Args:
        module: operators, not lowered yet; not modified.
        dtype: one of `HALF_TYPES`.
        input_count: parameters of `main` that are the model's inputs; the others are weights.

    Returns:
        A new module; weights of products alone, with values or without, are of the type.
    """
    main = module["main"]
    weights = [each for each in main.params[input_count:] if _is_wide(each)]
    changed = {each.name: _retyped(each, dtype) for each in weights if _is_multiplied(main, each)}
    halved = _Halved(module, dtype, changed)
    body = halved.visit_expr(main.body)
    params = [changed.get(each.name, each) for each in main.params]
    result = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    result["main"] = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
    result = relax.transform.Normalize()(result)
    # What several products read is converted once.
    return relax.transform.EliminateCommonSubexpr()(result)


def _is_wide(value: Any) -> bool:
    return str(getattr(value.ty, "dtype", "")) == _WIDE


def _is_multiplied(main: relax.Function, value: relax.Var) -> bool:
    """Whether all that a value is used for is to be an operand of products."""
    uses = [
        (binding.value.op, binding.var)
        for block in main.body.blocks
        for binding in block.bindings
        if isinstance(binding.value, Call)
        and any(value.same_as(each) for each in binding.value.args)
    ]
    return bool(uses) and all(
        op in (_PRODUCT, _CONVOLUTION) or (op in _MOVES and _is_multiplied(main, result))
        for op, result in uses
    )


def _retyped(variable: relax.Var, dtype: str) -> relax.Var:
    return relax.Var(variable.name, relax.TensorType(variable.ty.shape.values, dtype))


@mutator
class _Halved(PyExprMutator):  # type: ignore[misc]
    """Operands are converted where they are read; constants at once."""

    def __init__(self, module: tvm.IRModule, dtype: str, params: dict[str, relax.Var]) -> None:
        super().__init__(module)
        self._dtype = dtype
        self._params = params
        #: Constants and what they became: one that is used twice stays one weight.
        self._constants: list[tuple[tvm.ir.Expr, tvm.ir.Expr]] = []

    def visit_var_(self, variable: relax.Var) -> tvm.ir.Expr:
        """Parameters of another type are other variables."""
        return self._params.get(variable.name, variable)

    def visit_call_(self, call: Call) -> tvm.ir.Expr:
        """A product's operands are converted, where they are float32."""
        arguments = [self.visit_expr(each) for each in call.args]
        if call.op not in (_PRODUCT, _CONVOLUTION) or not all(map(_is_wide, call.args)):
            return Call(call.op, arguments, call.attrs, call.ty_args)
        left, right = map(self._half, arguments)
        if call.op == _PRODUCT:
            return relax.op.matmul(left, right, out_dtype=_WIDE)
        given = call.attrs
        return relax.op.nn.conv2d(
            left,
            right,
            strides=[int(each) for each in given.strides],
            padding=[int(each) for each in given.padding],
            dilation=[int(each) for each in given.dilation],
            groups=int(given.groups),
            data_layout=str(given.data_layout),
            kernel_layout=str(given.kernel_layout),
            out_layout=str(given.out_layout),
            out_dtype=_WIDE,
        )

    def _half(self, value: tvm.ir.Expr) -> tvm.ir.Expr:
        if isinstance(value, tvm.ir.GenericConst):
            return self._constant(value)
        if isinstance(value, relax.Var) and any(value.same_as(p) for p in self._params.values()):
            return value
        bound = self.lookup_binding(value) if isinstance(value, relax.Var) else None
        if isinstance(bound, Call) and bound.op in _MOVES:
            # Moved before it is multiplied: what is moved is converted, so that it can be a weight.
            moved = self._half(bound.args[0])
            again = Call(bound.op, [moved, *bound.args[1:]], bound.attrs, bound.ty_args)
            return self.builder_.emit(again)
        return self.builder_.emit(relax.op.astype(value, self._dtype))

    def _constant(self, value: tvm.ir.Expr) -> tvm.ir.Expr:
        for known, made in self._constants:
            if known.same_as(value):
                return made
        made = relax.const(_to(value.value.numpy(), self._dtype), self._dtype)
        self._constants.append((value, made))
        return made


def _to(array: np.ndarray[Any, Any], dtype: str) -> Any:
    import ml_dtypes

    return array.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16)
