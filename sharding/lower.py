"""Lowers an ONNX graph to a Relax module of fused operators whose weights are parameters."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from tune_farm.sharding.channels_last import channels_last
from tune_farm.sharding.externalize import externalize_constants
from tune_farm.sharding.half_precision import to_half_precision
from tune_farm.sharding.layout import Layout
from tune_farm.sharding.models.spec import LoadedModel
from tune_farm.sharding.packing import pack_weights
from tune_farm.tuner.errors import UsageError

#: What the compiler's importer and passes raise for a model that they cannot handle.
_COMPILER_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RuntimeError,  # the root of TVM's own errors
    TypeError,
    ValueError,
)
_FAILED_OPERATOR = re.compile(r"Error converting operator (\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One true input of the model."""

    name: str  # as the model calls it
    shape: tuple[int | str, ...]  # an expression in names where the size is not known
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredModel:
    """A module of fused operators; its `main` takes the inputs, then the weights."""

    name: str
    layout: Layout
    fast_math: bool  # exp, erf, tanh and softmax as polynomials that fill vectors
    module: tvm.IRModule
    inputs: tuple[InputSpec, ...]
    weights: tuple[npt.NDArray[np.generic], ...]  # for the trailing parameters, or empty
    weight_count: int  # trailing parameters of `main`, with or without values at hand
    output_count: int
    symbolic_dims: tuple[str, ...]  # sizes still unknown, by name
    bindable_dims: tuple[str, ...]  # those of them that the user can give

    @property
    def has_symbolic_shapes(self) -> bool:
        """Whether the model cannot be run end to end because sizes are missing."""
        return bool(self.symbolic_dims)

    @property
    def has_weights(self) -> bool:
        """Whether `weights` holds a value for each trailing parameter."""
        return len(self.weights) == self.weight_count


@contextlib.contextmanager
def _usage_errors(loaded: LoadedModel, stage: str) -> Iterator[None]:
    """Turn what the compiler raises about a model into one line, and keep it from printing."""
    printed = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
            warnings.simplefilter("ignore")
            yield
    except _COMPILER_ERRORS as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[-1] if lines else type(error).__name__
        operator = _FAILED_OPERATOR.search(printed.getvalue())
        where = f" (operator {operator.group(1)})" if operator else ""
        unbound = " ".join(f"--shape {dim}=…" for dim in loaded.symbolic_dims)
        remedy = f"give its sizes: {unbound}" if unbound else "simplify the model (onnxsim)"
        raise UsageError(
            f"{loaded.name}: the compiler cannot {stage} this model{where}: {reason[:300]}", remedy
        ) from error


def _input_specs(loaded: LoadedModel, main: relax.Function) -> tuple[InputSpec, ...]:
    initialized = {tensor.name for tensor in loaded.proto.graph.initializer}
    names = [
        value.name
        for value in loaded.proto.graph.input
        if value.name not in initialized and value.name not in loaded.weight_inputs
    ]
    specs = []
    for name, param in zip(names, main.params, strict=False):
        dims = param.ty.shape.values if param.ty.shape is not None else ()
        shape = tuple(int(dim) if isinstance(dim, tvm.tirx.IntImm) else str(dim) for dim in dims)
        specs.append(InputSpec(name=name, shape=shape, dtype=str(param.ty.dtype)))
    return tuple(specs)


def _symbolic_dims(main: relax.Function) -> tuple[str, ...]:
    """Names of all size variables in the parameters' and the result's shapes."""
    found = {str(var) for var in relax.analysis.free_symbolic_vars(main)}
    found |= {str(var) for var in relax.analysis.defined_symbolic_vars(main)}
    return tuple(sorted(found))


def lower(
    loaded: LoadedModel,
    target: tvm.target.Target,
    layout: Layout = Layout.GIVEN,
    *,
    fast_math: bool = False,
    dtype: str | None = None,
) -> LoweredModel:
    """Lower a model to fused operators for a target, nothing scheduled yet.

    Args:
        loaded: the model.
        target: what it is compiled for.
        layout: of its tensors.
        fast_math: whether exp, erf, tanh and softmax become polynomials (errors of some units in
            the last place); otherwise each element calls the C library.
        dtype: of 16 bits, of products' operands; None: as the model has them.

    Raises:
        UsageError: the compiler cannot import or lower the model.
    """
    with _usage_errors(loaded, "import"):
        module = from_onnx(loaded.proto)
    inputs = _input_specs(loaded, module["main"])
    with (
        _usage_errors(loaded, "lower"),
        target,
        tvm.transform.PassContext(opt_level=3),
    ):
        if dtype is not None:
            module = to_half_precision(module, dtype, input_count=len(inputs))
        if fast_math:
            module = relax.transform.FastMathTransform()(module)
        if layout is Layout.PACKED:
            module = channels_last(module, input_count=len(inputs))
        module = relax.get_pipeline("zero")(module)
    module, weights = externalize_constants(module, input_count=len(inputs))
    if layout is Layout.PACKED:
        module, weights = pack_weights(module, weights, input_count=len(inputs))
    main = module["main"]
    returned = main.ret_ty
    return LoweredModel(
        name=loaded.name,
        layout=layout,
        fast_math=fast_math,
        module=module,
        inputs=inputs,
        weights=weights,
        weight_count=len(main.params) - len(inputs),
        output_count=len(returned.fields) if isinstance(returned, relax.TupleType) else 1,
        symbolic_dims=_symbolic_dims(main),
        bindable_dims=loaded.symbolic_dims,
    )
