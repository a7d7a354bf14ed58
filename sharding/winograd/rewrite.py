"""Rewrites convolutions of a packed model into the three operators of Winograd's algorithm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import tvm
from tvm import relax, tirx
from tvm.ir import Call, GlobalVar
from tvm.relax.expr_functor import PyExprMutator, mutator

from tune_farm.sharding.arguments import symbolic_sizes
from tune_farm.sharding.layout import Layout
from tune_farm.sharding.lower import LoweredModel
from tune_farm.sharding.packing import Place, weight_places
from tune_farm.sharding.winograd.convolution import Convolution, find_convolution
from tune_farm.sharding.winograd.kernels import input_transform, output_transform, product
from tune_farm.sharding.winograd.tiles import Tiles, pack_weight

_CONVOLUTION = re.compile(r"^(?:fused_)?conv2d\d*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operators:
    """What takes a convolution's place, in the order of their calls."""

    input_transform: tirx.PrimFunc
    product: tirx.PrimFunc
    output_transform: tirx.PrimFunc

    @property
    def functions(self) -> tuple[tirx.PrimFunc, ...]:
        """All of them."""
        return self.input_transform, self.product, self.output_transform


def operators_of(convolution: Convolution, tile: int) -> Operators:
    """The operators of a convolution whose output is cut into tiles of `tile` by `tile`."""
    return Operators(
        input_transform=input_transform(convolution, tile),
        product=product(convolution, tile),
        output_transform=output_transform(convolution, tile),
    )


def find_convolutions(lowered: LoweredModel) -> dict[str, Convolution]:
    """The functions of a packed model that Winograd's algorithm can compute, by name.

    Their weights are constant and read by nothing else: they can be transformed beforehand.
    """
    if lowered.layout is not Layout.PACKED:
        return {}
    main = lowered.module["main"]
    names = {variable.name for variable in main.params[len(lowered.inputs) :]}
    places = weight_places(main, names)
    found = {}
    for name in dict.fromkeys(place.function for place in places):
        function = lowered.module[name]
        convolution = None if symbolic_sizes(function) else find_convolution(function)
        if convolution and Place(name, convolution.weight) in places:
            found[name] = convolution
    return found


def rewrite(lowered: LoweredModel, tiles: Mapping[str, int]) -> LoweredModel:
    """Replace convolutions by Winograd operators.

    Args:
        lowered: packed; not modified.
        tiles: outputs of one tile along each dimension, by function, of those that are replaced.
    """
    if not tiles:
        return lowered
    found = find_convolutions(lowered)
    chosen = {name: (found[name], tile) for name, tile in tiles.items()}
    module, main = lowered.module, lowered.module["main"]
    inputs = len(lowered.inputs)
    variables = main.params[inputs:]
    places = weight_places(main, {variable.name for variable in variables})
    by_weight = {
        weight: (convolution, tile)
        for name, (convolution, tile) in chosen.items()
        for weight in places[Place(name, convolution.weight)]
    }
    return replace(
        lowered,
        module=_rewritten(module, chosen, by_weight),
        weights=tuple(
            pack_weight(array, by_weight[variable.name][1]) if variable.name in by_weight else array
            for variable, array in zip(variables, lowered.weights, strict=bool(lowered.weights))
        ),
    )


def _rewritten(
    module: tvm.IRModule,
    chosen: Mapping[str, tuple[Convolution, int]],
    by_weight: Mapping[str, tuple[Convolution, int]],
) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    # A GlobalVar carries its function's type: each gets a new one.
    kept = {
        variable.name_hint: builder.add_func(function, variable.name_hint)
        for variable, function in module.functions_items()
        if variable.name_hint != "main" and variable.name_hint not in chosen
    }
    replaced = {
        name: _Replacement(
            convolution=convolution,
            tile=tile,
            functions=tuple(
                builder.add_func(function.without_attr("global_symbol"), new_name)
                for function, new_name in zip(
                    operators_of(convolution, tile).functions, operator_names(name), strict=True
                )
            ),
        )
        for name, (convolution, tile) in chosen.items()
    }
    main = module["main"]
    variables = {
        variable.name: relax.Var(variable.name, _weight_type(*by_weight[variable.name]))
        for variable in main.params
        if variable.name in by_weight
    }
    rewriter = _Rewriter(builder.get(), kept, replaced, variables)
    body = rewriter.visit_expr(main.body)
    params = [variables.get(variable.name, variable) for variable in main.params]
    result = builder.get()
    result["main"] = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
    return relax.transform.Normalize()(result)


def operator_names(function: str) -> tuple[str, str, str]:
    """Names of the operators that replace a function: the last one keeps its epilogue's."""
    epilogue = _CONVOLUTION.sub("", function)
    return "winograd_input", "winograd_matmul", f"winograd_output{epilogue}"


def _weight_type(convolution: Convolution, tile: int) -> relax.TensorType:
    shape = Tiles.of(convolution, tile).weight_shape(convolution.channels, convolution.filters)
    return relax.TensorType(shape, "float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replacement:
    convolution: Convolution
    tile: int
    functions: tuple[GlobalVar, ...]  # input transform, product, output transform


@mutator
class _Rewriter(PyExprMutator):  # type: ignore[misc]
    """Replaces calls of convolutions, and functions and variables by name."""

    def __init__(
        self,
        module: tvm.IRModule,
        functions: dict[str, GlobalVar],
        replaced: dict[str, _Replacement],
        variables: dict[str, relax.Var],
    ) -> None:
        super().__init__(module)
        self._functions = functions
        self._replaced = replaced
        self._variables = variables

    def visit_global_var_(self, function: GlobalVar) -> GlobalVar:
        """Replace a function."""
        return self._functions.get(function.name_hint, function)

    def visit_var_(self, variable: relax.Var) -> relax.Var:
        """Replace a variable."""
        return self._variables.get(variable.name, super().visit_var_(variable))

    def visit_call_(self, call: Call) -> tvm.ir.Expr:
        """Replace a call of a convolution by three."""
        name = call.args[0].name_hint if call.op == _CALL_TIR else ""
        if name not in self._replaced:
            return super().visit_call_(call)
        found = self._replaced[name]
        conv, tiles = found.convolution, Tiles.of(found.convolution, found.tile)
        arguments = [self.visit_expr(argument) for argument in call.args[1].fields]
        transform, multiply, output = found.functions
        shape = (tiles.points, tiles.count, conv.channels)
        transformed = self._emit(transform, [arguments[conv.data]], shape)
        shape = (tiles.points, tiles.count, conv.filters)
        products = self._emit(multiply, [transformed, arguments[conv.weight]], shape)
        operands = [arguments[place] for place in conv.others]
        return relax.call_tir(output, relax.Tuple([products, *operands]), call.ty_args[0])

    def _emit(
        self, function: GlobalVar, arguments: list[relax.Expr], shape: tuple[int, ...]
    ) -> relax.Var:
        result = relax.TensorType(shape, "float32")
        return self.builder_.emit(relax.call_tir(function, relax.Tuple(arguments), result))


_CALL_TIR = tvm.ir.Op.get("relax.call_tir")
