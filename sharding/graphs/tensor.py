"""Tensors by shape and layout alone: what is a view of them, and what must be copied instead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """What an operator reads: a value, or a view of one."""

    value: int  # who shows the same value has the same number
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    base: tuple[int, ...]  # the shape in which the value was written
    needs_gradient: bool = False
    item_bytes: int = 4

    def __post_init__(self) -> None:
        assert len(self.shape) == len(self.strides), self
        assert min(self.shape, default=1) >= 1, self

    @property
    def elements(self) -> int:
        """How many there are."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Of all elements."""
        return self.item_bytes * self.elements

    @property
    def columns(self) -> int:
        """Elements of the last axis."""
        return self.shape[-1] if self.shape else 1

    @property
    def rows(self) -> int:
        """Elements of all axes but the last."""
        return self.elements // self.columns

    @property
    def is_contiguous(self) -> bool:
        """Whether elements lie in the order of their indices."""
        dense = zip(self.shape, self.strides, contiguous_strides(self.shape), strict=True)
        return all(size == 1 or stride == expected for size, stride, expected in dense)

    @property
    def is_transposed(self) -> bool:
        """Whether neighbors of the last axis lie apart."""
        return self.columns > 1 and self.strides[-1] != 1

    def permuted(self, *axes: int) -> Tensor:
        """The view with its axes in another order."""
        assert sorted(axes) == list(range(len(self.shape))), axes
        shape, strides = ([part[axis] for axis in axes] for part in (self.shape, self.strides))
        return replace(self, shape=tuple(shape), strides=tuple(strides))

    def viewed(self, *shape: int) -> Tensor | None:
        """The view in another shape of as many elements; None if it takes a copy."""
        strides = view_strides(self.shape, self.strides, shape)
        return None if strides is None else replace(self, shape=shape, strides=strides)

    @property
    def gradient_is_copied(self) -> bool:
        """Whether a gradient that was written in this shape must be copied to the value's own.

        The gradient goes back through the views: axes return to their order for nothing, but then
        the value's shape may be no view of it (`view` and `reshape` in PyTorch's derivatives.yaml).
        """
        shape, strides = self._returned()
        return view_strides(shape, strides, self.base) is None

    @property
    def gradient_is_transposed(self) -> bool:
        """Whether such a copy reads across the lines of its source."""
        return self._returned()[1][-1] != 1

    def _returned(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shape and strides of the gradient, with axes in the order of the value."""
        order = sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis])
        written = contiguous_strides(self.shape)
        return tuple(self.shape[i] for i in order), tuple(written[i] for i in order)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Of a tensor whose last axis runs fastest."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def view_strides(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """Strides that show the same elements in another shape, or None: the rule of `Tensor.view`.

    Each new axis has to lie within one run of old axes that follow each other in memory.
    """
    assert math.prod(shape) == math.prod(wanted), (shape, wanted)
    runs = iter(_runs(shape, strides))
    left, step = 1, 1
    found = []
    for size in reversed(wanted):
        if size > 1 and left == 1:
            left, step = next(runs)
        if left % size:
            return None
        found.append(step)
        left //= size
        step *= size
    return tuple(reversed(found))


def _runs(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Axes that can be counted as one: size and stride of each such run, the innermost first."""
    runs: list[tuple[int, int]] = []
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 1:
            continue
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0] * size, runs[-1][1])
        else:
            runs.append((size, stride))
    return runs
