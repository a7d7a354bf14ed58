from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

from tune_farm.sharding.lower import lower
from tune_farm.sharding.models.load import load_model
from tune_farm.sharding.models.spec import LoadedModel, ModelSpec
from tune_farm.tuner.errors import UsageError

FLOAT = TensorProto.FLOAT


def make(
    nodes: list[onnx.NodeProto],
    shape: list[int | str | None],
    *,
    initializers: list[onnx.TensorProto] | None = None,
    output: list[int | str | None] | None = None,
    opset: int = 17,
    domains: tuple[str, ...] = (),
) -> onnx.ModelProto:
    """A model from `x` of a shape to `y`, of the same unless another is given."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, output or shape)],
        initializers or [],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def relu() -> onnx.NodeProto:
    return helper.make_node("Relu", ["x"], ["y"])


def load(path: Path, **shapes: int) -> LoadedModel:
    spec = ModelSpec(model=str(path), shapes=tuple(shapes.items()))
    return load_model(spec, with_weights=True)


def serialized(proto: onnx.ModelProto) -> bytes:
    return bytes(proto.SerializeToString())


def save(path: Path, proto: onnx.ModelProto) -> Path:
    path.write_bytes(serialized(proto))
    return path


def unknown_operator() -> bytes:
    node = helper.make_node("LSTM", ["x", "w", "w"], ["y"], hidden_size=4)
    weight = numpy_helper.from_array(np.ones((1, 16, 4), dtype=np.float32), "w")
    return serialized(make([node], [1, 1, 4], output=[1, 1, 1, 4], initializers=[weight]))


def custom_domain() -> bytes:
    node = helper.make_node("Fancy", ["x"], ["y"], domain="my.company")
    return serialized(make([node], [1], domains=("my.company",)))


def invalid_attribute() -> bytes:
    node = helper.make_node("Relu", ["x"], ["y"], colour="red")
    return serialized(make([node], [1]))


def without_nodes() -> bytes:
    return serialized(make([], [1]))


def cut_short() -> bytes:
    return serialized(make([relu()], [1]))[:-20]


BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "is empty"),
    "noise": (lambda: bytes(range(255, 0, -1)), "not an ONNX file"),
    "text": (lambda: b"hello", "not an ONNX file"),
    "pointer": (lambda: b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    "cut": (cut_short, "not an ONNX file"),
    "bare": (lambda: serialized(onnx.ModelProto(ir_version=8)), "no graph"),
    "nodeless": (without_nodes, "no operators"),
    "attribute": (invalid_attribute, "not valid ONNX"),
    "operator": (unknown_operator, "LSTM"),
    "domain": (custom_domain, "my.company.Fancy"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_file_is_one_line(case: str, tmp_path: Path) -> None:
    content, message = BROKEN[case]
    path = tmp_path / f"{case}.onnx"
    path.write_bytes(content())
    with pytest.raises(UsageError, match=message) as caught:
        load(path)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load(tmp_path / "none.onnx")
    folder = tmp_path / "folder.onnx"
    folder.mkdir()
    with pytest.raises(UsageError, match="is a folder"):
        load(folder)


def external(tmp_path: Path) -> Path:
    """x + w, with w in a file of its own."""
    weight = numpy_helper.from_array(np.full((4, 512), 3.0, dtype=np.float32), "w")
    proto = make([helper.make_node("Add", ["x", "w"], ["y"])], [4, 512], initializers=[weight])
    path = tmp_path / "external.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_external_data_is_loaded(tmp_path: Path) -> None:
    loaded = load(external(tmp_path))
    (weight,) = loaded.proto.graph.initializer
    assert (numpy_helper.to_array(weight) == 3.0).all()
    assert loaded.parameter_count == 2048


def test_missing_external_data_is_named(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(UsageError, match=r"weights\.bin") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_importer_failure_is_one_line(tmp_path: Path, target: tvm.target.Target) -> None:
    shape = [helper.make_node("NonZero", ["x"], ["at"]), helper.make_node("Shape", ["at"], ["s"])]
    nodes = [*shape, helper.make_node("RandomNormalLike", ["x"], ["y"])]
    path = save(tmp_path / "random.onnx", make(nodes, [4]))
    with pytest.raises(UsageError) as caught:
        lower(load(path), target)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("opset", [6, 99])
def test_opset_out_of_range_is_named(opset: int, tmp_path: Path) -> None:
    path = save(tmp_path / "model.onnx", make([relu()], [4, 8], opset=opset))
    if opset == 6:
        assert load(path).proto.opset_import[0].version == 6
        return
    with pytest.raises(UsageError, match="opset") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_named_dimensions_are_bound(tmp_path: Path) -> None:
    path = save(tmp_path / "dims.onnx", make([relu()], ["n", None, "n+1", 8]))
    assert load(path).symbolic_dims == ("n", "x_1")
    loaded = load(path, n=4, x_1=2)
    assert loaded.symbolic_dims == ()
    dims = loaded.proto.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [4, 2, 5, 8]


def test_unknown_dimension_lists_the_models(tmp_path: Path) -> None:
    path = save(tmp_path / "dims.onnx", make([relu()], ["n", "m"]))
    with pytest.raises(UsageError) as caught:
        load(path, k=4)
    assert "'k'" in caught.value.cause
    assert caught.value.remedy == "its dimensions: m, n"
    with pytest.raises(UsageError, match="n=0 is out of range"):
        load(path, n=0)


def reshaping() -> onnx.ModelProto:
    """Flattens all but the first dimension, as exporters write it."""
    constants = {
        "zero": np.array([0], dtype=np.int64),
        "one": np.array([1], dtype=np.int64),
        "rest": np.array([-1], dtype=np.int64),
    }
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "one"], ["first"]),
        helper.make_node("Concat", ["first", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["flat"]),
        helper.make_node("Relu", ["flat"], ["y"]),
    ]
    arrays = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    return make(nodes, ["n", 3, 4], output=["n", 12], initializers=arrays)


def test_shape_arithmetic_becomes_constant(tmp_path: Path, target: tvm.target.Target) -> None:
    path = save(tmp_path / "reshape.onnx", reshaping())
    loaded = load(path, n=2)
    assert [node.op_type for node in loaded.proto.graph.node] == ["Reshape", "Relu"]
    lowered = lower(loaded, target)
    assert not lowered.has_symbolic_shapes


def normalized() -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    weights = {
        "k": rng.standard_normal((6, 3, 3, 3)),
        "b": rng.standard_normal(6),
        "scale": rng.uniform(0.5, 2, 6),
        "shift": rng.standard_normal(6),
        "mean": rng.standard_normal(6),
        "variance": rng.uniform(0.5, 2, 6),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k", "b"], ["c"], kernel_shape=[3, 3]),
        helper.make_node(
            "BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["y"], epsilon=1e-3
        ),
    ]
    arrays = [
        numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()
    ]
    return make(nodes, [1, 3, 8, 8], output=[1, 6, 6, 6], initializers=arrays)


def test_batch_norm_is_folded_into_its_convolution(tmp_path: Path) -> None:
    proto = normalized()
    loaded = load(save(tmp_path / "norm.onnx", proto))
    assert [node.op_type for node in loaded.proto.graph.node] == ["Conv"]
    image = np.random.default_rng(2).standard_normal((1, 3, 8, 8), dtype=np.float32)
    before, after = (
        onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        ).run(None, {"x": image})[0]
        for model in (proto, loaded.proto)
    )
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)


def test_batch_norm_stays_where_the_convolution_has_other_readers(tmp_path: Path) -> None:
    proto = normalized()
    proto.graph.output.append(helper.make_tensor_value_info("c", FLOAT, [1, 6, 6, 6]))
    loaded = load(save(tmp_path / "norm.onnx", proto))
    assert [node.op_type for node in loaded.proto.graph.node] == ["Conv", "BatchNormalization"]
