"""Writes an ONNX graph node by node, with or without the weights' values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
#: ONNX IR version 8 came with opset 17; a newer one would shut out older runtimes for nothing.
IR_VERSION = 8
WEIGHT_SEED = 20_240_607


class GraphWriter:
    """One graph under construction.

    Weights are drawn in the order in which they are asked for, so the same builder gives the same
    values each time. Without weights they are declared as graph inputs and no value is ever made.
    """

    def __init__(self, *, with_weights: bool) -> None:
        self._with_weights = with_weights
        self._rng = np.random.default_rng(WEIGHT_SEED)
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._weight_inputs: list[onnx.ValueInfoProto] = []
        self._initializers: list[onnx.TensorProto] = []
        #: Trainable parameters as the model is published; builders add what folding took away.
        self.parameter_count = 0

    @property
    def weight_inputs(self) -> tuple[str, ...]:
        """Names of the graph inputs that stand for weights."""
        return tuple(value.name for value in self._weight_inputs)

    def input(self, name: str, shape: Sequence[int], dtype: int = TensorProto.FLOAT) -> str:
        """Declare a true input of the model."""
        self._inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def output(self, name: str, shape: Sequence[int]) -> None:
        """Declare a float output; `name` is an existing value."""
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))

    def weight(self, name: str, shape: Sequence[int], *, std: float, mean: float = 0.0) -> str:
        """Declare a float32 weight drawn from a normal distribution."""
        self.parameter_count += math.prod(shape)
        if not self._with_weights:
            value = helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
            self._weight_inputs.append(value)
            return name
        values = self._rng.standard_normal(tuple(shape), dtype=np.float32)
        values *= np.float32(std)
        values += np.float32(mean)
        self._initializers.append(numpy_helper.from_array(values, name))
        return name

    def constant(self, name: str, values: np.ndarray) -> str:
        """Declare a constant of the graph itself, such as a scale or a target shape."""
        self._initializers.append(numpy_helper.from_array(values, name))
        return name

    def scalar(self, name: str, value: float) -> str:
        """Declare a float32 scalar of the graph itself."""
        return self.constant(name, np.array(value, dtype=np.float32))

    def node(self, operator: str, *inputs: str, name: str, **attributes: Any) -> str:
        """Append an operator with one output, which has the node's name."""
        made = helper.make_node(operator, list(inputs), [name], name=name, **attributes)
        self._nodes.append(made)
        return name

    def model(self, name: str) -> onnx.ModelProto:
        """Close the graph."""
        graph = helper.make_graph(
            self._nodes,
            name,
            self._inputs + self._weight_inputs,
            self._outputs,
            self._initializers,
        )
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
