"""Loads an ONNX file for the compiler."""

from __future__ import annotations

import math
from pathlib import Path

import onnx

from tune_farm.sharding.models.batch_norm import fold_batch_norms
from tune_farm.sharding.models.dims import bind_dims, symbolic_dims
from tune_farm.sharding.models.onnx_read import fold, read_onnx
from tune_farm.sharding.models.operators import check_operators
from tune_farm.sharding.models.spec import LoadedModel, ModelSpec


def load_onnx_file(spec: ModelSpec) -> LoadedModel:
    """Load and check a file, with external data if it has some, and bind its dimensions.

    Raises:
        UsageError: the file cannot be read, or the model cannot be used.
    """
    path = Path(spec.model)
    proto = read_onnx(path)
    check_operators(path.name, proto)
    bind_dims(path.name, proto.graph, spec.shapes)
    parameter_count = _parameter_count(proto.graph)
    fold(path, proto)
    fold_batch_norms(proto.graph)
    return LoadedModel(
        name=path.stem,
        spec=spec,
        proto=proto,
        weight_inputs=(),
        parameter_count=parameter_count,
        symbolic_dims=symbolic_dims(proto.graph),
    )


def _parameter_count(graph: onnx.GraphProto) -> int:
    """Elements of all float initializers: a file does not say which of them are trained."""
    floats = (
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.FLOAT16,
        onnx.TensorProto.BFLOAT16,
        onnx.TensorProto.DOUBLE,
    )
    return sum(math.prod(data.dims) for data in graph.initializer if data.data_type in floats)
