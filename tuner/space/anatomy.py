"""What a scheduled module computes: its blocks, their axes, and which elements each touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
    #: For each dimension of the buffer: (axis, |coefficient|) of each axis that moves along it.
    terms: tuple[tuple[tuple[int, int], ...], ...]
    is_write: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of a module."""

    name: str
    axes: tuple[Axis, ...]
    accesses: tuple[Access, ...]

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
    reads = [_access(region, variables, is_write=False) for region in node.reads]
    writes = [_access(region, variables, is_write=True) for region in node.writes]
    return Block(name=str(node.name_hint), axes=axes, accesses=(*reads, *writes))


def _access(region: Any, variables: list[Any], *, is_write: bool) -> Access:
    import tvm

    kind = region.source.ty
    return Access(
        buffer=str(region.source.name),
        scope=str(kind.storage_scope) or "global",
        element_bytes=max(1, int(tvm.DataType(str(kind.dtype)).bits) // 8),
        shape=tuple(int(size) for size in kind.shape),
        terms=tuple(_terms(each.min, variables) for each in region.region),
        is_write=is_write,
    )


def _terms(index: Any, variables: list[Any]) -> tuple[tuple[int, int], ...]:
    """The axes in an index with their coefficients; where it is not affine, 1 for each."""
    import tvm
    import tvm_ffi
    from tvm import tirx

    solved = tvm.sym.detect_linear_equation(index, variables)
    if solved:
        steps = [abs(int(step)) if hasattr(step, "value") else 1 for step in solved[:-1]]
        return tuple((axis, step) for axis, step in enumerate(steps) if step)
    used: list[Any] = []
    tvm_ffi.structural_walk(index, (tirx.Var, used.append), order="post")
    return tuple(
        (axis, 1)
        for axis, variable in enumerate(variables)
        if any(variable.same_as(each) for each in used)
    )
