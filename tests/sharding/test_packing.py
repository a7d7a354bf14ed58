"""A packed model computes what the given one does, from weights that lie as its loops read them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

from tests.sharding.test_lower import Models, random_inputs, run_compiled
from tune_farm.sharding.extract import extract
from tune_farm.sharding.layout import Layout
from tune_farm.sharding.lower import lower
from tune_farm.sharding.models.load import load_model
from tune_farm.sharding.models.spec import LoadedModel, ModelSpec
from tune_farm.sharding.panels import Panel, pack_array, packed_shape


def small_network() -> LoadedModel:
    """A convolution, a depthwise one, a pointwise one, and a dense layer used twice."""
    rng = np.random.default_rng(0)
    shapes = {
        "full": (32, 16, 3, 3),
        "depthwise": (32, 1, 3, 3),
        "pointwise": (128, 32, 1, 1),
        "dense": (128, 128),
    }
    values = {
        name: (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        for name, shape in shapes.items()
    }
    nodes = [
        helper.make_node("Conv", ["x", "full"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "depthwise"], ["c"], kernel_shape=[3, 3], group=32),
        helper.make_node("Conv", ["c", "pointwise"], ["d"], kernel_shape=[1, 1]),
        helper.make_node("GlobalAveragePool", ["d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("MatMul", ["f", "dense"], ["g"]),
        helper.make_node("MatMul", ["g", "dense"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 14, 14])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 128])],
        [numpy_helper.from_array(array, name) for name, array in values.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(proto)
    return LoadedModel(
        name="small",
        spec=ModelSpec(model="small"),
        proto=proto,
        weight_inputs=(),
        parameter_count=sum(array.size for array in values.values()),
        symbolic_dims=(),
    )


@pytest.mark.parametrize("name", ["small", "bert", "resnet"])
def test_a_packed_model_gives_the_same_numbers(
    name: str, tiny_models: Models, target: tvm.target.Target
) -> None:
    loaded = small_network() if name == "small" else tiny_models[name, True]
    given = lower(loaded, target)
    packed = lower(loaded, target, Layout.PACKED, fast_math=True)
    inputs = random_inputs(given)
    assert packed.inputs == given.inputs
    right, actual = (run_compiled(lowered, inputs, target) for lowered in (given, packed))
    for output, expected in zip(actual, right, strict=True):
        np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-5)


def test_weights_that_are_summed_over_lie_in_panels(target: tvm.target.Target) -> None:
    lowered = lower(small_network(), target, Layout.PACKED)
    assert sorted(weight.shape for weight in lowered.weights) == [
        (2, 3, 3, 16, 16),  # [out / 16, height, width, in, out % 16]
        (8, 1, 1, 32, 16),
        (8, 128, 16),  # used twice by one function: one weight still
    ]
    kinds = Counter(task.kind for task in extract(lowered, target).tasks)
    assert kinds["depthwise_conv2d"] == 1  # its small weight stays as it was
    assert kinds["conv2d"] == 2


@pytest.mark.parametrize("name", ["resnet18", "bert"])
def test_weights_do_not_change_the_packed_tasks(
    name: str, tiny_models: Models, target: tvm.target.Target
) -> None:
    found = [
        extract(lower(loaded, target, Layout.PACKED), target)
        for loaded in (
            tiny_models[name, flag]
            if name == "bert"
            else load_model(ModelSpec(model=name), with_weights=flag)
            for flag in (True, False)
        )
    ]
    ids = [Counter({task.id: task.weight for task in each.tasks}) for each in found]
    assert ids[0] == ids[1]


def test_a_panel_holds_neighbours_side_by_side() -> None:
    array = np.arange(3 * 32, dtype=np.float32).reshape(3, 32)
    panel = Panel(block="matmul", axis=1, read=1, dimension=1, width=16)
    packed = pack_array(array, panel)
    assert packed.shape == packed_shape(array.shape, panel) == (2, 3, 16)
    assert packed.flags.c_contiguous
    np.testing.assert_array_equal(packed[1, 2], array[2, 16:])
