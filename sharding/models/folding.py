"""Computes the shape arithmetic of a graph whose sizes are known.

Exporters leave chains such as Shape, Slice, Concat, Reshape; the compiler's importer wants the
result of such a chain as a constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

_Array = npt.NDArray[np.generic]

#: Shape arithmetic is on a few numbers; weights are the compiler's to fold.
_MAX_ELEMENTS = 1024
#: A chain gets shorter each round; this many rounds are far beyond any exporter's.
_MAX_ROUNDS = 32
#: Operators with other results each time, or with graphs of their own.
_NEVER = frozenset(
    {
        *("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"),
        *("Multinomial", "Bernoulli", "If", "Loop", "Scan", "SequenceMap"),
        *("QuantizeLinear", "DequantizeLinear"),
    }
)


def fold_shape_arithmetic(proto: onnx.ModelProto) -> None:
    """Replace what follows from the static sizes by constants, in place.

    Raises:
        onnx.shape_inference.InferenceError: the sizes contradict each other.
    """
    for _ in range(_MAX_ROUNDS):
        inferred = onnx.shape_inference.infer_shapes(proto, data_prop=True)
        folded = _fold_once(proto, _static_shapes(inferred.graph))
        if not folded:
            return


def _static_shapes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    shapes = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        tensor = value.type.tensor_type
        if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
            continue
        if all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            shapes[value.name] = tuple(dim.dim_value for dim in tensor.shape.dim)
    return shapes


def _small_constants(graph: onnx.GraphProto) -> dict[str, _Array]:
    constants = {
        data.name: numpy_helper.to_array(data)
        for data in graph.initializer
        if math.prod(data.dims) <= _MAX_ELEMENTS
    }
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            data = node.attribute[0].t
            if math.prod(data.dims) <= _MAX_ELEMENTS:
                constants[node.output[0]] = numpy_helper.to_array(data)
    return constants


def _fold_once(proto: onnx.ModelProto, shapes: dict[str, tuple[int, ...]]) -> bool:
    """Fold all nodes that can be folded in one pass; whether there were any."""
    graph = proto.graph
    constants = _small_constants(graph)
    outputs = {value.name for value in graph.output}
    kept, folded = [], []
    for node in graph.node:
        values = None
        if node.op_type != "Constant" and not outputs.intersection(node.output):
            values = _result(node, constants, shapes, proto.opset_import)
        if values is None:
            kept.append(node)
            continue
        for name, value in zip(node.output, values, strict=True):
            constants[name] = value
            folded.append(numpy_helper.from_array(value, name))
    if folded:
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
        del graph.node[:]
        graph.node.extend(nodes)
        graph.initializer.extend(folded)
    return bool(folded)


def _result(
    node: onnx.NodeProto,
    constants: dict[str, _Array],
    shapes: dict[str, tuple[int, ...]],
    opsets: Sequence[onnx.OperatorSetIdProto],
) -> list[_Array] | None:
    """The outputs of a node that depends on constants and static shapes alone."""
    if node.op_type == "Shape" and node.domain in ("", "ai.onnx"):
        return _shape_result(node, shapes)
    inputs = [name for name in node.input if name]
    if node.op_type in _NEVER or node.domain not in ("", "ai.onnx") or not inputs:
        return None
    if any(name not in constants for name in inputs) or "" in node.output:
        return None
    if not any(constants[name].dtype.kind in "iub" for name in inputs):
        return None  # float arithmetic is not about shapes
    feeds = {name: constants[name] for name in inputs}
    declared = [onnx.helper.make_tensor_value_info(name, 0, None) for name in feeds]
    results = [onnx.helper.make_tensor_value_info(name, 0, None) for name in node.output]
    graph = onnx.helper.make_graph([node], "fold", declared, results)
    model = onnx.helper.make_model(graph, opset_imports=opsets)
    values = [np.asarray(value) for value in ReferenceEvaluator(model).run(None, feeds)]
    return values if all(value.size <= _MAX_ELEMENTS for value in values) else None


def _shape_result(node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]]) -> list[_Array] | None:
    shape = shapes.get(node.input[0])
    if shape is None:
        return None
    limits = {attribute.name: attribute.i for attribute in node.attribute}
    part = shape[limits.get("start", 0) : limits.get("end", len(shape))]
    return [np.array(part, dtype=np.int64)]
