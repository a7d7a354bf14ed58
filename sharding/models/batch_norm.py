"""Folds batch norms into the convolutions before them: at inference they are one operator."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

_Floats = npt.NDArray[np.float32]
_DEFAULT_EPSILON = 1e-5  # ONNX's, where a node does not give one


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """A convolution whose only reader is a batch norm."""

    convolution: onnx.NodeProto
    norm: onnx.NodeProto


def fold_batch_norms(graph: onnx.GraphProto) -> None:
    """Fold what can be folded, in place; float32 with constant weights only."""
    constants = _float_constants(graph)
    removed: set[str] = set()
    for pair in _pairs(graph):
        needed = [*pair.convolution.input[1:], *pair.norm.input[1:]]
        if all(name in constants for name in needed if name):
            _fold(graph, pair, constants)
            removed.add(pair.norm.output[0])
    if removed:
        kept = [
            onnx.NodeProto.FromString(node.SerializeToString())
            for node in graph.node
            if not (node.op_type == "BatchNormalization" and node.output[0] in removed)
        ]
        del graph.node[:]
        graph.node.extend(kept)


def _float_constants(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    constants = {data.name: data for data in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    # An initializer that is an input, too, is only a default: its value may change.
    inputs = {value.name for value in graph.input}
    return {
        name: data
        for name, data in constants.items()
        if data.data_type == onnx.TensorProto.FLOAT and name not in inputs
    }


def _pairs(graph: onnx.GraphProto) -> list[_Pair]:
    readers = Counter(name for node in graph.node for name in node.input)
    readers.update(value.name for value in graph.output)
    convolutions = {node.output[0]: node for node in graph.node if node.op_type == "Conv"}
    return [
        _Pair(convolution=convolutions[node.input[0]], norm=node)
        for node in graph.node
        if node.op_type == "BatchNormalization"
        and len(node.output) == 1
        and node.input[0] in convolutions
        and readers[node.input[0]] == 1
    ]


def _fold(graph: onnx.GraphProto, pair: _Pair, constants: dict[str, onnx.TensorProto]) -> None:
    def values(name: str) -> _Floats:
        return numpy_helper.to_array(constants[name])

    attributes = {attribute.name: attribute.f for attribute in pair.norm.attribute}
    epsilon = attributes.get("epsilon", _DEFAULT_EPSILON)
    scale, shift, mean, variance = map(values, pair.norm.input[1:5])
    gain = scale / np.sqrt(variance + np.float32(epsilon))  # (channels_out,)
    kernel = values(pair.convolution.input[1])  # (channels_out, channels_in / groups, …)
    folded = kernel * gain.reshape(-1, *[1] * (kernel.ndim - 1))
    has_bias = len(pair.convolution.input) > 2 and pair.convolution.input[2]
    bias = values(pair.convolution.input[2]) if has_bias else np.zeros_like(mean)
    output = pair.norm.output[0]
    names = [f"{output}_folded_kernel", f"{output}_folded_bias"]
    for name, data in zip(names, (folded, shift + (bias - mean) * gain), strict=True):
        graph.initializer.append(numpy_helper.from_array(data.astype(np.float32), name))
    source = pair.convolution.input[0]
    del pair.convolution.input[:]
    pair.convolution.input.extend([source, *names])
    pair.convolution.output[0] = output
