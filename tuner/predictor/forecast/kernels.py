"""What a forecast is asked for: one launch of a library's or a framework's kernel, by its shape."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.forecast.chip import Chip

Floats = NDArray[np.float64]


class KernelKind(enum.Enum):
    """Classes of kernels; each has a law of its own."""

    BATCHED_PRODUCT = "batched matmul"
    LINEAR = "linear"  # a product with a bias, its weight transposed
    ELEMENTWISE = "elementwise"
    SOFTMAX = "softmax"
    LAYER_NORM = "layer norm"
    REDUCTION = "reduction"
    COPY = "copy"  # as it lies, or transposed
    GATHER = "gather"  # embeddings, indexing


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One launch. Products are (batch, rows, depth) x (batch, depth, columns)."""

    kind: KernelKind
    rows: int  # of a product, or that are reduced; elementwise: elements of the result / columns
    columns: int  # of a product's result; of a row that is reduced
    batch: int = 1
    depth: int = 1  # what a product sums over
    moved_bytes: int  # operands and result, each once
    operation: str = ""  # of an elementwise kernel: "add", "gelu", …
    dtype: str = "float32"

    @property
    def flops(self) -> float:
        """Of a product, without padding; else one for each element of the result."""
        return (2.0 * self.depth if self.depth > 1 else 1.0) * self.batch * self.rows * self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecasts:
    """Of kernels, in their order; arrays of shape (kernels,)."""

    device_seconds: Floats  # on the GPU, without what a launch costs on the host
    low_seconds: Floats  # nine of ten lie between low and high
    high_seconds: Floats
    is_outside: NDArray[np.bool_]  # of the training's range: a roofline, with a wide interval


class Forecaster(Protocol):
    """Predicts kernels on a GPU that need not exist here."""

    def predict(self, kernels: Sequence[Kernel], chip: Chip) -> Forecasts:
        """Seconds of each kernel on a chip."""
        ...
