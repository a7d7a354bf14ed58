"""What a user asks for as a model, and what loading it gives."""

from __future__ import annotations

from dataclasses import dataclass

import onnx


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model and the sizes that make its shapes static.

    Args:
        model: a built-in name or the path of an `.onnx` file.
        batch: samples in one inference, at least 1; a file fixes its own.
        sequence: tokens of one sample, where the built-in model has a sequence.
        shapes: values for the named dimensions of a file's inputs.
    """

    model: str
    batch: int = 1
    sequence: int = 128
    shapes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A checked ONNX graph with its named dimensions bound."""

    name: str  # short and free of folders
    spec: ModelSpec
    proto: onnx.ModelProto  # owned by this object; nobody changes it
    weight_inputs: tuple[str, ...]  # graph inputs that stand for weights; empty with weights
    parameter_count: int  # as published: before batch norms were folded
    symbolic_dims: tuple[str, ...]  # named dimensions of the inputs that are still unbound

    @property
    def has_weights(self) -> bool:
        """Whether the graph carries the weights' values."""
        return not self.weight_inputs
