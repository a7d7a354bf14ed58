"""Packs the constant weights of a lowered model, each for the one function that reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, tirx
from tvm.ir import Call, GlobalVar
from tvm.relax.expr_functor import PyExprMutator, PyExprVisitor, mutator, visitor

from tune_farm.sharding.panels import (
    Panel,
    find_panel,
    pack_array,
    pack_function,
    packed_shape,
)

Arrays = tuple[npt.NDArray[np.generic], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """An argument of a function."""

    function: str
    argument: int


@visitor
class _Uses(PyExprVisitor):  # type: ignore[misc]
    """Where variables are used: in calls of functions, and at all."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[GlobalVar, Sequence[relax.Expr]]] = []
        self.total: Counter[str] = Counter()

    def visit_call_(self, call: Call) -> None:
        """Note a call of a function with its arguments."""
        if call.op == tvm.ir.Op.get("relax.call_tir"):
            self.calls.append((call.args[0], list(call.args[1].fields)))
        super().visit_call_(call)

    def visit_var_(self, variable: relax.Var) -> None:
        """Count a use."""
        self.total[variable.name] += 1


@mutator
class _Substitute(PyExprMutator):  # type: ignore[misc]
    """Replaces functions and variables by name."""

    def __init__(self, functions: dict[str, GlobalVar], variables: dict[str, relax.Var]) -> None:
        super().__init__()
        self._functions = functions
        self._variables = variables

    def visit_global_var_(self, function: GlobalVar) -> GlobalVar:
        """Replace a function."""
        return self._functions.get(function.name_hint, function)

    def visit_var_(self, variable: relax.Var) -> relax.Var:
        """Replace a variable."""
        return self._variables.get(variable.name, variable)


def pack_weights(
    module: tvm.IRModule, weights: Arrays, *, input_count: int
) -> tuple[tvm.IRModule, Arrays]:
    """Pack each weight that one function alone reads, where that gains something.

    Args:
        module: fused operators; not modified. Its `main` takes the inputs, then the weights.
        weights: their values, or none.
        input_count: parameters of `main` before the weights.

    Returns:
        The module with changed functions and parameters, and the values to pass to it.
    """
    main = module["main"]
    variables = main.params[input_count:]
    changed: dict[str, tirx.PrimFunc] = {}
    packed: dict[str, Panel] = {}
    for place, names in weight_places(main, {variable.name for variable in variables}).items():
        function = changed.get(place.function, module[place.function])
        panel = find_panel(function, place.argument)
        if panel is not None:
            changed[place.function] = pack_function(function, panel)
            packed.update(dict.fromkeys(names, panel))
    return (
        _with_packed(module, changed, packed),
        tuple(
            pack_array(array, packed[variable.name]) if variable.name in packed else array
            for variable, array in zip(variables, weights, strict=bool(weights))
        ),
    )


def _with_packed(
    module: tvm.IRModule, changed: dict[str, tirx.PrimFunc], packed: dict[str, Panel]
) -> tvm.IRModule:
    """The module with functions replaced and parameters retyped."""
    builder = relax.BlockBuilder()
    # A GlobalVar carries its function's type: each gets a new one.
    functions = {
        variable.name_hint: builder.add_func(
            changed.get(variable.name_hint, function), variable.name_hint
        )
        for variable, function in module.functions_items()
        if variable.name_hint != "main"
    }
    main = module["main"]
    variables = {
        variable.name: relax.Var(variable.name, _packed_type(variable, packed[variable.name]))
        for variable in main.params
        if variable.name in packed
    }
    body = _Substitute(functions, variables).visit_expr(main.body)
    params = [variables.get(variable.name, variable) for variable in main.params]
    result = builder.get()
    result["main"] = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
    return relax.transform.Normalize()(result)


def _packed_type(variable: relax.Var, panel: Panel) -> relax.TensorType:
    shape = tuple(int(size) for size in variable.ty.shape.values)
    return relax.TensorType(packed_shape(shape, panel), variable.ty.dtype)


def weight_places(main: relax.Function, names: set[str]) -> dict[Place, set[str]]:
    """Arguments that are a weight in every call, with the weights that are used nowhere else."""
    uses = _Uses()
    uses.visit_expr(main.body)
    at: dict[Place, list[str | None]] = {}
    for function, arguments in uses.calls:
        for index, argument in enumerate(arguments):
            is_weight = isinstance(argument, relax.Var) and argument.name in names
            name = argument.name if is_weight else None
            at.setdefault(Place(function.name_hint, index), []).append(name)
    return {
        place: {name for name in found if name is not None}
        for place, found in at.items()
        if all(n is not None and found.count(n) == uses.total[n] for n in found)
    }
