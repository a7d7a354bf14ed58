"""A model so small that a whole run is a matter of seconds, yet each operator gains by tuning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

#: The operators that can be tuned, as `tune-farm tasks` names them: channels are last.
OPERATORS = ("conv2d_relu.1x32x32x16", "conv2d_relu.1x16x16x32", "matmul.1x10")
#: What that takes at both ends; these have few schedules.
CONVERSIONS = ("transpose.1x32x32x3", "transpose_reshape.1x8192")


def write_tiny_model(path: Path, *, last_operator: str = "MatMul", domain: str = "") -> Path:
    """Write two convolutions and a product as an ONNX file; returns its path.

    Args:
        path: where to.
        last_operator: what stands in the place of the product.
        domain: the domain of that operator.
    """
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Flatten", ["r2"], ["flat"]),
        helper.make_node(last_operator, ["flat", "w3"], ["y"], domain=domain),
    ]
    shapes = {"w1": (16, 3, 3, 3), "w2": (32, 16, 3, 3), "w3": (8192, 10)}
    generator = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(generator.normal(0, 0.1, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        weights,
    )
    opsets = [helper.make_opsetid("", 17)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def write_convolution(path: Path) -> Path:
    """Write one 3x3 convolution of 64 channels, of which Winograd's algorithm makes far less work.

    Returns its path.
    """
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    size = [1, 64, 32, 32]
    weight = np.random.default_rng(0).normal(0, 0.05, (64, 64, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "convolution",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, size)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, size)],
        [numpy_helper.from_array(weight, "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path
