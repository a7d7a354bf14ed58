from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import tvm
from tvm import relax

from tune_farm.sharding.lower import LoweredModel, lower
from tune_farm.sharding.models.spec import LoadedModel

Models = dict[tuple[str, bool], LoadedModel]
Arrays = list[npt.NDArray[Any]]


def random_inputs(lowered: LoweredModel) -> Arrays:
    rng = np.random.default_rng(3)
    arrays = []
    for spec in lowered.inputs:
        shape = [int(size) for size in spec.shape]
        is_float = spec.dtype.startswith("float")
        values = rng.standard_normal(shape) if is_float else rng.integers(0, 2, shape)
        arrays.append(values.astype(spec.dtype))
    return arrays


def run_compiled(lowered: LoweredModel, inputs: Arrays, target: tvm.target.Target) -> Arrays:
    machine = relax.VirtualMachine(tvm.compile(lowered.module, target), tvm.cpu())
    arguments = [tvm.runtime.tensor(array) for array in (*inputs, *lowered.weights)]
    result = machine["main"](*arguments)
    outputs = [result] if lowered.output_count == 1 else list(result)
    return [output.numpy() for output in outputs]


def run_reference(proto: onnx.ModelProto, lowered: LoweredModel, inputs: Arrays) -> Arrays:
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [spec.name for spec in lowered.inputs]
    return list(session.run(None, dict(zip(names, inputs, strict=True))))


@pytest.mark.parametrize("name", ["bert", "resnet"])
def test_compiled_model_gives_the_reference_numbers(
    name: str, tiny_models: Models, target: tvm.target.Target
) -> None:
    loaded = tiny_models[name, True]
    lowered = lower(loaded, target)
    inputs = random_inputs(lowered)
    ours = run_compiled(lowered, inputs, target)
    reference = run_reference(loaded.proto, lowered, inputs)
    assert len(ours) == len(reference) == lowered.output_count
    for output, expected in zip(ours, reference, strict=True):
        assert 0.01 < np.abs(expected).max() < 100
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "resnet"])
def test_weights_are_not_in_the_module(
    name: str, tiny_models: Models, target: tvm.target.Target
) -> None:
    lowered = lower(tiny_models[name, True], target)
    main = lowered.module["main"]
    assert lowered.has_weights
    assert lowered.weight_count == len(main.params) - len(lowered.inputs)
    for param, weight in zip(main.params[len(lowered.inputs) :], lowered.weights, strict=True):
        assert tuple(int(dim) for dim in param.ty.shape.values) == weight.shape
        assert weight.size > 1024
    assert int(main.attrs["num_input"]) == len(lowered.inputs)


def test_shape_only_model_has_the_weights_as_trailing_parameters(
    tiny_models: Models, target: tvm.target.Target
) -> None:
    loaded = tiny_models["bert", False]
    lowered = lower(loaded, target)
    assert [spec.name for spec in lowered.inputs] == [
        "input_ids",
        "attention_mask",
        "token_type_ids",
    ]
    assert lowered.inputs[0].shape == (2, 16)
    assert lowered.inputs[0].dtype == "int64"
    assert lowered.weights == ()
    assert lowered.weight_count == len(loaded.weight_inputs)
    assert not lowered.has_weights
    assert not lowered.has_symbolic_shapes


def test_one_weight_used_twice_is_one_parameter(target: tvm.target.Target) -> None:
    helper = onnx.helper
    weight = np.ones((64, 64), dtype=np.float32) / 64
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["once"]),
            helper.make_node("MatMul", ["once", "w"], ["y"]),
        ],
        "twice",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 64])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    loaded = LoadedModel(
        name="twice",
        spec=None,  # type: ignore[arg-type]
        proto=proto,
        weight_inputs=(),
        parameter_count=64 * 64,
        symbolic_dims=(),
    )
    lowered = lower(loaded, target)
    assert len(lowered.weights) == 1
