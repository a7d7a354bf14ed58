"""Converts a model's 2D convolutions to channels last, its constant weights beforehand."""

from __future__ import annotations

from collections import Counter

import tvm
from tvm import relax
from tvm.ir import Call
from tvm.relax.expr_functor import PyExprMutator, mutator

_PERMUTE = tvm.ir.Op.get("relax.permute_dims")


def channels_last(module: tvm.IRModule, *, input_count: int) -> tvm.IRModule:
    """Convert 2D convolutions and what lies between them from NCHW to NHWC.

    Weights are permuted beforehand, whether they are constants or parameters without values.

    Args:
        module: operators, not fused yet; not modified.
        input_count: parameters of `main` that are inputs; the others are weights.

    Returns:
        A new module with the same inputs and outputs.
    """
    converted = relax.transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "HWIO"]})(module)
    converted = relax.transform.Normalize()(converted)
    converted = relax.transform.CanonicalizeBindings()(converted)
    main = converted["main"]
    permuted = _Permuted(converted, _permuted_once(main, main.params[input_count:]))
    body = permuted.visit_expr(main.body)
    params = [permuted.variables.get(param.name, param) for param in main.params]
    result = tvm.IRModule(dict(converted.functions_items()), attrs=converted.attrs)
    result["main"] = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
    result = relax.transform.Normalize()(result)
    return relax.transform.CanonicalizeBindings()(result)


@mutator
class _Permuted(PyExprMutator):  # type: ignore[misc]
    """Permutes weights now; TVM would compile and run a kernel for each shape to fold them."""

    def __init__(self, module: tvm.IRModule, permutable: set[str]) -> None:
        super().__init__(module)
        self._permutable = permutable
        #: Weights without values that were retyped, by name.
        self.variables: dict[str, relax.Var] = {}

    def visit_call_(self, call: Call) -> tvm.ir.Expr:
        """Replace the permutation of a weight by the permuted weight."""
        if call.op != _PERMUTE or call.attrs.axes is None:
            return call
        weight, axes = call.args[0], [int(axis) for axis in call.attrs.axes]
        if isinstance(weight, tvm.ir.GenericConst):
            return relax.const(weight.value.numpy().transpose(axes), str(weight.ty.dtype))
        if isinstance(weight, relax.Var) and weight.name in self._permutable:
            shape = [weight.ty.shape.values[axis] for axis in axes]
            variable = relax.Var(weight.name, relax.TensorType(shape, weight.ty.dtype))
            return self.variables.setdefault(weight.name, variable)
        return call


def _permuted_once(main: relax.Function, weights: list[relax.Var]) -> set[str]:
    """Names of the weights that nothing reads but one permutation."""
    uses: Counter[str] = Counter()
    permuted: set[str] = set()

    def visit(value: tvm.ir.Expr) -> None:
        if isinstance(value, Call):
            names = [each.name for each in value.args if isinstance(each, relax.Var)]
            uses.update(names)
            if value.op == _PERMUTE:
                permuted.update(names)
        elif isinstance(value, relax.Tuple):
            uses.update(each.name for each in value.fields if isinstance(each, relax.Var))

    relax.analysis.post_order_visit(main.body, visit)
    return {w.name for w in weights if w.name in permuted and uses[w.name] == 1}
