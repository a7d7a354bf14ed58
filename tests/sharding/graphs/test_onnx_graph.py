from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tune_farm.sharding.graphs.bert import bert
from tune_farm.sharding.graphs.operator import Graph, Wanted
from tune_farm.sharding.graphs.registry import graph_of
from tune_farm.sharding.graphs.resnet import resnet
from tune_farm.sharding.models.bert import write_bert
from tune_farm.sharding.models.graph_writer import GraphWriter
from tune_farm.sharding.models.resnet import write_resnet
from tune_farm.sharding.models.sizes import BertConfig, ResNetConfig
from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.predictor.forecast.kernels import Kernel, KernelKind

FLOAT = TensorProto.FLOAT
PRODUCTS = (KernelKind.LINEAR, KernelKind.BATCHED_PRODUCT)


def saved(path: Path, writer: GraphWriter) -> Path:
    path.write_bytes(writer.model("tiny").SerializeToString())
    return path


def kernels(graph: Graph) -> list[Kernel]:
    return [each for operator, _ in graph.operators() for each in operator.forward]


def made(
    path: Path,
    nodes: list[onnx.NodeProto],
    shape: list[int | str],
    weights: dict[str, np.ndarray] | None = None,
    *,
    kind: int = FLOAT,
    domains: tuple[str, ...] = (),
) -> Path:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, [None] * len(shape))],
        [numpy_helper.from_array(data, name) for name, data in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in domains)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path.write_bytes(proto.SerializeToString())
    return path


def all_products(graph: Graph) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for operator, times in graph.operators():
        for each in operator.forward:
            if each.kind in PRODUCTS:
                found[each.batch, each.rows, each.depth, each.columns] += times
    return found


def test_a_file_has_the_products_of_the_built_in_bert(tmp_path: Path) -> None:
    config = BertConfig(layers=2, hidden=32, heads=4, intermediate=64, vocabulary=100, positions=32)
    writer = GraphWriter(with_weights=True)
    write_bert(writer, config, batch=2, sequence=16)
    file = graph_of(str(saved(tmp_path / "tiny.onnx", writer)), Wanted())
    built = bert("tiny", config, Wanted(batch=2, sequence=16), classes=0)
    assert all_products(file) == all_products(built)
    assert file.name == "tiny"


@pytest.mark.parametrize("bottleneck", [True, False])
def test_a_file_has_the_products_of_the_built_in_resnet(tmp_path: Path, bottleneck: bool) -> None:
    depths = (1, 1, 1, 2)
    config = ResNetConfig(depths=depths, bottleneck=bottleneck, width=8, image_size=32, classes=10)
    writer = GraphWriter(with_weights=True)
    write_resnet(writer, config, batch=2)
    file = graph_of(str(saved(tmp_path / "tiny.onnx", writer)), Wanted())
    built = resnet("tiny", config, Wanted(batch=2))
    assert all_products(file) == all_products(built)
    assert len(kernels(file)) == len(kernels(built))


def test_what_follows_a_convolution_alone_is_part_of_it(tmp_path: Path) -> None:
    weights = {
        "w": np.ones((8, 3, 3, 3), dtype=np.float32),
        **{name: np.ones(8, dtype=np.float32) for name in ("s", "b", "m", "v")},
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    path = made(tmp_path / "conv.onnx", nodes, [2, 3, 10, 10], weights)
    operators = graph_of(str(path), Wanted()).blocks[0].operators
    assert [each.label for each in operators if each.forward] == ["convolution", ""]
    (gemm,) = operators[0].forward
    assert (gemm.rows, gemm.depth, gemm.columns) == (2 * 8 * 8, 27, 8)

    trained = graph_of(str(path), Wanted(training=True)).blocks[0].operators
    assert len([each for each in trained if each.forward]) == 3
    assert all(each.backward for each in trained if each.forward)


def test_a_named_dimension_must_be_given(tmp_path: Path) -> None:
    path = made(tmp_path / "open.onnx", [helper.make_node("Relu", ["x"], ["y"])], ["n", 4])
    with pytest.raises(UsageError, match="sizes of its inputs are open; give --shape n="):
        graph_of(str(path), Wanted())
    graph = graph_of(str(path), Wanted(), (("n", 8),))
    assert graph.blocks[0].operators[0].forward[0].moved_bytes == 8 * 32


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (helper.make_node("LSTM", ["x", "x", "x"], ["y"], hidden_size=4), "no forecast: LSTM;"),
        (helper.make_node("Fancy", ["x"], ["y"], domain="my.company"), "my.company.Fancy;"),
    ],
)
def test_operators_without_a_forecast_are_named(
    tmp_path: Path, node: onnx.NodeProto, says: str
) -> None:
    path = made(tmp_path / "strange.onnx", [node], [1, 4, 4], domains=("my.company",))
    with pytest.raises(UsageError, match=says) as caught:
        graph_of(str(path), Wanted())
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_half_precision_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    path = made(tmp_path / "half.onnx", [node], [4, 4], kind=TensorProto.FLOAT16)
    with pytest.raises(UsageError, match=r"half\.onnx computes in 16 bits"):
        graph_of(str(path), Wanted())


def test_shape_arithmetic_costs_nothing(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Reshape", ["x", "s"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[1, 0]),
        helper.make_node("Tanh", ["t"], ["y"]),
    ]
    graph = graph_of(str(made(tmp_path / "shapes.onnx", nodes, [4, 6])), Wanted())
    assert [each.forward[0].operation for each in graph.blocks[0].operators] == ["tanh"]


def test_external_weights_are_not_read(tmp_path: Path) -> None:
    weights = {"w": np.ones((64, 64), dtype=np.float32)}
    path = made(
        tmp_path / "big.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [8, 64], weights
    )
    proto = onnx.load(path)
    onnx.save(proto, path, save_as_external_data=True, location="weights", size_threshold=0)
    (tmp_path / "weights").unlink()
    assert all_products(graph_of(str(path), Wanted())) == {(1, 8, 64, 64): 1}
