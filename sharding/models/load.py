"""Loads a model by its name or from its file."""

from __future__ import annotations

from pathlib import Path

from tune_farm.sharding.models.graph_writer import GraphWriter
from tune_farm.sharding.models.onnx_file import load_onnx_file
from tune_farm.sharding.models.registry import builder_of, builtin_names
from tune_farm.sharding.models.spec import LoadedModel, ModelSpec
from tune_farm.tuner.errors import UsageError


def load_model(spec: ModelSpec, *, with_weights: bool) -> LoadedModel:
    """Load a model as a checked ONNX graph.

    Args:
        spec: the model and its sizes.
        with_weights: whether a built-in model gets values for its weights; a file always has them.

    Raises:
        UsageError: there is no such model, or it cannot be used.
    """
    if spec.batch < 1:
        raise UsageError(f"a batch of {spec.batch} is out of range", "give a batch of at least 1")
    suffix = Path(spec.model).suffix.lower()
    if suffix == ".pt2":
        raise UsageError(
            f"{spec.model}: torch.export files are not supported yet",
            "export the model to ONNX (torch.onnx.export) and give the .onnx file",
        )
    if suffix == ".onnx" or (spec.model not in builtin_names() and Path(spec.model).is_file()):
        return load_onnx_file(spec)
    builder = builder_of(spec.model)
    if spec.shapes:
        names = ", ".join(name for name, _ in spec.shapes)
        raise UsageError(
            f"{spec.model} has no named dimensions, but {names} was given",
            "built-in models are static: use the batch and sequence options instead",
        )
    writer = GraphWriter(with_weights=with_weights)
    builder(writer, spec)
    return LoadedModel(
        name=spec.model,
        spec=spec,
        proto=writer.model(spec.model),
        weight_inputs=writer.weight_inputs,
        parameter_count=writer.parameter_count,
        symbolic_dims=(),
    )
