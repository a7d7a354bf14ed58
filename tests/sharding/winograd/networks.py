"""Small networks around one convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tune_farm.sharding.models.spec import LoadedModel, ModelSpec


def network(
    size: Sequence[int] = (1, 32, 9, 9),
    *,
    filters: int = 32,
    kernel: int = 3,
    residual: bool = False,
    times: int = 1,
    **attributes: Any,
) -> LoadedModel:
    """Convolutions with one weight, each with a bias and a ReLU.

    Args:
        size: of the input, (batch, channels, height, width).
        filters: of each convolution.
        kernel: its height and width.
        residual: whether the input is added before the ReLU.
        times: how many convolutions.
        attributes: of ONNX's Conv.
    """
    rng = np.random.default_rng(0)
    shape = (filters, size[1] // attributes.get("group", 1), kernel, kernel)
    weight = (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
    bias = rng.standard_normal((1, filters, 1, 1)).astype(np.float32)
    nodes, value = [], "x"
    for index in range(times):
        names = [f"{name}{index}" for name in ("convolved", "shifted", "added", "y")]
        nodes += [
            helper.make_node("Conv", [value, "w"], names[:1], **attributes),
            helper.make_node("Add", [names[0], "b"], names[1:2]),
        ]
        before = names[1]
        if residual:
            nodes.append(helper.make_node("Add", [before, "x"], names[2:3]))
            before = names[2]
        nodes.append(helper.make_node("Relu", [before], names[3:]))
        value = names[3]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, size)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in (("w", weight), ("b", bias))],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return LoadedModel(
        name="network",
        spec=ModelSpec(model="network"),
        proto=proto,
        weight_inputs=(),
        parameter_count=weight.size + bias.size,
        symbolic_dims=(),
    )
