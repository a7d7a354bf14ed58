"""Kernels of one class as arrays, for laws that take thousands at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.forecast.kernels import Kernel

Floats = NDArray[np.float64]

#: Instructions that one element of a result costs a lane, roughly, from PyTorch's source: what is
#: not listed is a few. Elementwise kernels are bound by memory on all GPUs but shares of few SMs.
_INSTRUCTIONS = {"pow": 60.0, "gelu": 40.0, "tanh": 30.0, "erf": 30.0, "exp": 20.0, "div": 16.0}
_FEW = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """(kernels,) float64 each, or what broadcasts to it; products are as `Kernel` has them."""

    batch: Floats
    rows: Floats
    depth: Floats
    columns: Floats
    moved_bytes: Floats
    instructions: Floats  # of a lane for one element

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def elements(self) -> Floats:
        """Of the result."""
        return self.batch * self.rows * self.columns

    @property
    def flops(self) -> Floats:
        """Of a product, without padding."""
        return 2.0 * self.elements * self.depth

    def take(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> Sizes:
        """Some of the kernels."""
        return Sizes(
            batch=self.batch[which],
            rows=self.rows[which],
            depth=self.depth[which],
            columns=self.columns[which],
            moved_bytes=self.moved_bytes[which],
            instructions=self.instructions[which],
        )

    def beside(self) -> Sizes:
        """As columns, (kernels, 1), so that choices of a library broadcast beside them."""
        return Sizes(
            batch=self.batch[:, None],
            rows=self.rows[:, None],
            depth=self.depth[:, None],
            columns=self.columns[:, None],
            moved_bytes=self.moved_bytes[:, None],
            instructions=self.instructions[:, None],
        )


def sizes_of(kernels: Sequence[Kernel]) -> Sizes:
    """The arrays of kernels, in their order."""
    found = [(k.batch, k.rows, k.depth, k.columns, k.moved_bytes) for k in kernels]
    table = np.array(found, dtype=np.float64).reshape(len(kernels), 5)
    return Sizes(
        batch=table[:, 0],
        rows=table[:, 1],
        depth=table[:, 2],
        columns=table[:, 3],
        moved_bytes=table[:, 4],
        instructions=instructions_of([k.operation for k in kernels]),
    )


def instructions_of(operations: Sequence[str]) -> Floats:
    """What one element costs a lane, by the operation's name."""
    return np.array([_INSTRUCTIONS.get(name, _FEW) for name in operations], dtype=np.float64)
