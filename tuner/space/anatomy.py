"""What a scheduled module computes: its blocks, their axes, and which elements each touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Steps of an axis after which an index must have moved, or it counts as not moving.
_LONGEST_STAIR = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One iteration axis of a block."""

    name: str
    extent: int
    is_reduction: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The elements of one buffer that a block reads or writes, as an affine map of its axes."""

    buffer: str
    scope: str  # "global", "shared", "local", …
    element_bytes: int
    shape: tuple[int, ...]
    #: For each dimension of the buffer: (axis, |coefficient|) of each axis that moves along it; 0
    #: where it moves in stairs.
    terms: tuple[tuple[tuple[int, int], ...], ...]
    is_write: bool
    #: For each dimension: (axis, height, length) of each axis that moves `height` elements along
    #: after every `length` of its steps, as a grouped convolution's output channels do.
    stairs: tuple[tuple[tuple[int, int, int], ...], ...] = ()

    def moves_along(self, axis: int) -> bool:
        """Whether an axis moves through the buffer."""
        return any(axis == each for terms in self.terms for each, _ in terms)

    def spans(self, covered: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Elements along each dimension that are touched while axes are run through.

        Args:
            covered: how much of each axis, (drafts, axes) int64.

        Returns:
            For each dimension (drafts,) int64, at most its size.
        """
        found = []
        for dimension, (size, terms) in enumerate(zip(self.shape, self.terms, strict=True)):
            span = np.ones(len(covered), dtype=np.int64)
            for axis, step in terms:
                span += step * (covered[:, axis] - 1)
            for axis, height, length in self.stairs[dimension] if self.stairs else ():
                span += height * (-(-covered[:, axis] // length) - 1)
            found.append(np.minimum(span, size))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of a module."""

    name: str
    axes: tuple[Axis, ...]
    accesses: tuple[Access, ...]

    @property
    def reads(self) -> tuple[Access, ...]:
        """What it reads, in the order of its regions."""
        return tuple(access for access in self.accesses if not access.is_write)

    @property
    def write(self) -> Access:
        """What it writes first."""
        return next(access for access in self.accesses if access.is_write)

    @property
    def is_reduction(self) -> bool:
        """Whether it accumulates."""
        return any(axis.is_reduction for axis in self.axes)


def blocks_of(module: Any) -> dict[str, Block]:
    """The blocks of an IRModule's `main`, but for the root, by name, in program order."""
    import tvm_ffi
    from tvm import s_tir

    found: dict[str, Block] = {}

    def visit(node: Any) -> None:
        if node.iter_vars:
            found[str(node.name_hint)] = _block(node)

    tvm_ffi.structural_walk(module["main"].body, (s_tir.SBlock, visit), order="post")
    return found


def _block(node: Any) -> Block:
    from tvm import tirx

    axes = tuple(
        Axis(
            name=str(axis.var.name),
            extent=int(axis.dom.extent),
            is_reduction=axis.iter_type == tirx.IterVar.CommReduce,
        )
        for axis in node.iter_vars
    )
    variables = [axis.var for axis in node.iter_vars]
    extents = [axis.extent for axis in axes]
    reads = [_access(region, variables, extents, is_write=False) for region in node.reads]
    writes = [_access(region, variables, extents, is_write=True) for region in node.writes]
    return Block(name=str(node.name_hint), axes=axes, accesses=(*reads, *writes))


def _access(region: Any, variables: list[Any], extents: list[int], *, is_write: bool) -> Access:
    import tvm

    kind = region.source.ty
    found = [_terms(each.min, variables, extents) for each in region.region]
    return Access(
        buffer=str(region.source.name),
        scope=str(kind.storage_scope) or "global",
        element_bytes=max(1, int(tvm.DataType(str(kind.dtype)).bits) // 8),
        shape=tuple(int(size) for size in kind.shape),
        terms=tuple(terms for terms, _ in found),
        is_write=is_write,
        stairs=tuple(stairs for _, stairs in found) if any(stairs for _, stairs in found) else (),
    )


def _terms(
    index: Any, variables: list[Any], extents: list[int]
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int, int], ...]]:
    """The axes in an index with their coefficients, and its stairs; else 1 for each axis."""
    import tvm
    import tvm_ffi
    from tvm import tirx

    solved = tvm.sym.detect_linear_equation(index, variables)
    if solved:
        steps = [abs(int(step)) if hasattr(step, "value") else 1 for step in solved[:-1]]
        return tuple((axis, step) for axis, step in enumerate(steps) if step), ()
    found: list[Any] = []
    tvm_ffi.structural_walk(index, (tirx.Var, found.append), order="post")
    used = [
        axis for axis, each in enumerate(variables) if any(each.same_as(other) for other in found)
    ]
    stairs = _stairs(index, variables, extents, used)
    if stairs is None:
        return tuple((axis, 1) for axis in used), ()
    return (
        tuple((axis, height if length == 1 else 0) for axis, height, length in stairs),
        tuple(each for each in stairs if each[2] > 1),
    )


def _stairs(
    index: Any, variables: list[Any], extents: list[int], used: list[int]
) -> list[tuple[int, int, int]] | None:
    """An index as a sum of stairs, one a used axis; None if it is no such sum, as far as tried."""
    base = _value(index, variables, {})
    if base is None:
        return None
    found = []
    for axis in used:
        for length in range(1, min(extents[axis], _LONGEST_STAIR + 1)):
            value = _value(index, variables, {axis: length})
            if value is None or value < base:
                return None
            if value != base:
                found.append((axis, value - base, length))
                break
    # The far corner, and the corners beside it.
    for left in (None, *used):
        point = {axis: extents[axis] - 1 for axis in used if axis != left}
        height = sum(up * (point.get(axis, 0) // length) for axis, up, length in found)
        if _value(index, variables, point) != base + height:
            return None
    return found


def _value(index: Any, variables: list[Any], point: dict[int, int]) -> int | None:
    """An index at a point, axes that are not named at 0; None if other variables are in it."""
    import tvm

    analyzer = tvm.sym.Analyzer()
    for axis, variable in enumerate(variables):
        analyzer.bind(variable, tvm.tirx.const(point.get(axis, 0), str(variable.ty.dtype)))
    value = analyzer.simplify(index)
    return int(value.value) if hasattr(value, "value") else None
