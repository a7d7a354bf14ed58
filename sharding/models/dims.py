"""Named dimensions of a model's inputs: finding them, and giving them values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import onnx

from tune_farm.tuner.errors import UsageError

_Dim = onnx.TensorShapeProto.Dimension
#: The importer reads a dimension's name as a formula over these.
_OPERATORS = re.compile(r"(\+|-|\*|//|/)")


def _input_dims(graph: onnx.GraphProto) -> Iterator[tuple[str, _Dim]]:
    """Each dimension of the true inputs, and the name it would get if it has none."""
    initialized = {data.name for data in graph.initializer}
    for value in graph.input:
        if value.name in initialized or not value.type.HasField("tensor_type"):
            continue
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            fallback = re.sub(r"\W", "_", value.name)
            yield f"{fallback}_{axis}", dim


def _names_in(formula: str) -> list[str]:
    tokens = _OPERATORS.split(formula.replace(" ", ""))
    return [
        token for token in tokens if token and not token.isdigit() and not _OPERATORS.match(token)
    ]


def symbolic_dims(graph: onnx.GraphProto) -> tuple[str, ...]:
    """Names of the inputs' unbound dimensions, sorted."""
    names = {name for _, dim in _input_dims(graph) for name in _names_in(dim.dim_param)}
    return tuple(sorted(names))


def bind_dims(name: str, graph: onnx.GraphProto, shapes: Iterable[tuple[str, int]]) -> None:
    """Give named dimensions their values, in place; a nameless one gets `<input>_<axis>`.

    Raises:
        UsageError: a name is not one of the model's, or a value is not positive.
    """
    for fallback, dim in _input_dims(graph):
        if dim.dim_param.strip() in ("", "?") and dim.dim_value <= 0:
            dim.dim_param = fallback
    values = _checked(name, dict(shapes), symbolic_dims(graph))
    for _, dim in _input_dims(graph):
        if dim.dim_param:
            _bind(dim, values)
    # What an exporter noted about sizes in between may contradict the values given here.
    del graph.value_info[:]


def _checked(name: str, shapes: dict[str, int], known: tuple[str, ...]) -> dict[str, int]:
    for dim, value in shapes.items():
        if dim not in known:
            remedy = f"its dimensions: {', '.join(known)}" if known else "all its sizes are fixed"
            raise UsageError(f"{name} has no dimension named {dim!r}", remedy)
        if value < 1:
            raise UsageError(f"{name}: {dim}={value} is out of range", "give a size of at least 1")
    return shapes


def _bind(dim: _Dim, values: dict[str, int]) -> None:
    formula = dim.dim_param.replace(" ", "")
    tokens = [str(values.get(token, token)) for token in _OPERATORS.split(formula)]
    if all(token.isdigit() or _OPERATORS.match(token) for token in tokens):
        dim.dim_value = _evaluate(tokens)
    else:
        dim.dim_param = "".join(tokens)


def _evaluate(tokens: list[str]) -> int:
    """Left to right, without precedence: as the importer reads a formula."""
    result = int(tokens[0])
    for operator, number in zip(tokens[1::2], map(int, tokens[2::2]), strict=True):
        if operator == "+":
            result += number
        elif operator == "-":
            result -= number
        elif operator == "*":
            result *= number
        else:
            result //= number
    return result
