"""An ONNX file as a graph, by the sizes that the onnx package infers; weights are dropped first."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import onnx

from tune_farm.sharding.graphs.onnx_lowering import LOWERINGS, Node
from tune_farm.sharding.graphs.operator import Graph, Wanted
from tune_farm.sharding.graphs.tape import Tape
from tune_farm.sharding.graphs.tensor import Tensor
from tune_farm.sharding.models.dims import bind_dims, symbolic_dims
from tune_farm.sharding.models.onnx_read import fold, read_onnx
from tune_farm.tuner.errors import UsageError

_DEFAULT_DOMAINS = ("", "ai.onnx")
#: Larger initializers are weights; smaller ones may be shapes, which inference must read.
_MOST_SHAPE_ELEMENTS = 1024
_FLOAT = onnx.TensorProto.FLOAT
_ITEM_BYTES: dict[int, int] = {
    onnx.TensorProto.FLOAT: 4,
    onnx.TensorProto.INT32: 4,
    onnx.TensorProto.INT64: 8,
    onnx.TensorProto.BOOL: 1,
    onnx.TensorProto.INT8: 1,
    onnx.TensorProto.UINT8: 1,
    onnx.TensorProto.DOUBLE: 8,
}
_HALVES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
_BIASED = ("MatMul", "Conv")

_Kind = tuple[tuple[int, ...], int]  # shape and element type


def onnx_graph(path: Path, wanted: Wanted, shapes: tuple[tuple[str, int], ...]) -> Graph:
    """The graph of a file, whose sizes must be fixed or given.

    Raises:
        UsageError: the file can't be read, a size is open, or an operator has no forecast.
    """
    proto = read_onnx(path, with_weights=False)
    _check_operators(path.name, proto)
    bind_dims(path.name, proto.graph, shapes)
    if open_dims := symbolic_dims(proto.graph):
        given = " ".join(f"--shape {name}=…" for name in open_dims)
        raise UsageError(f"{path.name}: sizes of its inputs are open", f"give {given}")
    trained = _drop_weights(proto)
    fold(path, proto)
    walk = _Walk(path.name, proto, trained, Tape(training=wanted.training))
    walk.run()
    outputs = [walk.tensors[each.name] for each in proto.graph.output if each.name in walk.tensors]
    return Graph(
        name=path.stem,
        blocks=(walk.tape.block("graph", *outputs),),
        batch=None,
        sequence=None,
        training=wanted.training,
    )


def _check_operators(name: str, proto: onnx.ModelProto) -> None:
    """Name all operators that can't be forecast.

    Raises:
        UsageError: there are some.
    """
    known = {*LOWERINGS, "Constant"}
    unknown = set()
    for node in proto.graph.node:
        plain = node.domain in _DEFAULT_DOMAINS
        if not plain or node.op_type not in known:
            unknown.add(node.op_type if plain else f"{node.domain}.{node.op_type}")
    if unknown:
        raise UsageError(
            f"{name} uses operators that have no forecast: {', '.join(sorted(unknown))}",
            "export it without them, or replace them by standard ones",
        )


def _drop_weights(proto: onnx.ModelProto) -> set[str]:
    """Turn large initializers into inputs, in place; the names of all float ones: the weights."""
    graph = proto.graph
    known = {each.name for each in graph.input}
    kept, trained = [], set()
    for data in graph.initializer:
        if data.data_type in (_FLOAT, *_HALVES) and math.prod(data.dims) > 1:
            trained.add(data.name)
        if math.prod(data.dims) <= _MOST_SHAPE_ELEMENTS:
            kept.append(data)
        elif data.name not in known:
            kind = onnx.helper.make_tensor_value_info(data.name, data.data_type, list(data.dims))
            graph.input.append(kind)
    copies = [onnx.TensorProto.FromString(each.SerializeToString()) for each in kept]
    del graph.initializer[:]
    graph.initializer.extend(copies)
    return trained


class _Walk:
    """The way through a graph's nodes, in their order."""

    def __init__(self, name: str, proto: onnx.ModelProto, trained: set[str], tape: Tape) -> None:
        self.tape = tape
        self.tensors: dict[str, Tensor] = {}  # by name; without constants
        self._name = name
        self._graph = proto.graph
        self._trained = trained
        self._kinds = _kinds(proto)
        self._constants = {each.name for each in proto.graph.initializer} | trained
        self._readers = Counter(each for node in proto.graph.node for each in node.input)
        self._makers = {each: node for node in proto.graph.node for each in node.output}

    def run(self) -> None:
        """Note all operators on the tape."""
        for value in self._graph.input:
            if value.name not in self._constants:
                shape, kind = self._kind(value.name)
                self.tensors[value.name] = self.tape.input(
                    *shape, needs_gradient=False, item_bytes=_ITEM_BYTES[kind]
                )
        for node in self._graph.node:
            if node.op_type == "Constant" or all(
                each in self._constants for each in node.input if each
            ):
                self._constants.update(node.output)  # known before the model runs
            else:
                self._note(node)

    def _note(self, node: onnx.NodeProto) -> None:
        given = [each for each in node.input if each]
        shape, kind = self._kind(node.output[0])
        described = Node(
            name=node.name or node.output[0],
            operator=node.op_type,
            inputs=tuple(self._operand(each) for each in given),
            weights=tuple(each in self._trained for each in given),
            shape=shape,
            item_bytes=_ITEM_BYTES[kind],
            axes=next((tuple(a.ints) for a in node.attribute if a.name == "perm"), ()),
            takes_bias=self._takes_bias(node),
            is_folded=self._follows(node.input[0], ("Conv",)),
        )
        result = LOWERINGS[node.op_type](self.tape, described)
        self.tensors[node.output[0]] = result
        for name in node.output[1:]:
            if name in self._kinds:  # parts of a split, a dropout's mask
                other, other_kind = self._kind(name)
                self.tensors[name] = self.tape.input(
                    *other, needs_gradient=False, item_bytes=_ITEM_BYTES[other_kind]
                )

    def _operand(self, name: str) -> Tensor:
        if name not in self.tensors:
            assert name in self._constants, name
            shape, kind = self._kind(name)
            is_own = name in self._trained and not self._is_matrix_of_product(name)
            self.tensors[name] = (
                self.tape.record(name, shape, forward=(), parameters=[math.prod(shape)])
                if is_own
                else self.tape.input(
                    *shape, needs_gradient=False, item_bytes=_ITEM_BYTES.get(kind, 4)
                )
            )
        return self.tensors[name]

    def _is_matrix_of_product(self, name: str) -> bool:
        """Whether the operators that read a weight count it as their own."""
        owners = ("Conv", "Gemm", "MatMul", "LayerNormalization", "BatchNormalization", "Gather")
        return any(name in node.input and node.op_type in owners for node in self._graph.node)

    def _takes_bias(self, node: onnx.NodeProto) -> bool:
        if node.op_type != "Add":
            return False
        weights = [each in self._trained for each in node.input]
        if sorted(weights) != [False, True]:
            return False
        bias, product = node.input[weights.index(True)], node.input[weights.index(False)]
        sizes = [size for size in self._kind(bias)[0] if size > 1]
        return len(sizes) == 1 and self._follows(product, _BIASED)

    def _follows(self, name: str, operators: tuple[str, ...]) -> bool:
        """Whether a value is the result of one of these operators, and has one reader."""
        maker = self._makers.get(name)
        return maker is not None and maker.op_type in operators and self._readers[name] == 1

    def _kind(self, name: str) -> _Kind:
        if name not in self._kinds:
            raise UsageError(
                f"{self._name}: the size of {name!r} can't be told before it runs",
                "export it with fixed sizes, and without operators whose results vary in size",
            )
        shape, kind = self._kinds[name]
        if kind in _HALVES:
            raise UsageError(
                f"{self._name} computes in 16 bits", "forecasts are for float32: export it so"
            )
        return shape, kind


def _kinds(proto: onnx.ModelProto) -> dict[str, _Kind]:
    """Shape and type of each value whose sizes are known; a scalar has the shape ()."""
    inferred = onnx.shape_inference.infer_shapes(proto, data_prop=True).graph
    found: dict[str, _Kind] = {
        data.name: (tuple(data.dims), data.data_type) for data in inferred.initializer
    }
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        tensor = value.type.tensor_type
        if value.type.HasField("tensor_type") and tensor.HasField("shape"):
            sizes = [dim.dim_value for dim in tensor.shape.dim]
            if all(size > 0 for size in sizes):
                found[value.name] = (tuple(sizes), tensor.elem_type)
    return found
