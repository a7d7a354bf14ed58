"""Panels: a weight stored as the vectors that an operator's main block loads, one after the other.

A matrix product reads B[k, n] for all k at a few neighbouring n. Stored row by row, each k lies on
another page; as B[n / 16, k, n % 16] it is one stream (Goto and van de Geijn, ACM TOMS 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import tirx
from tvm.s_tir import Schedule

from tune_farm.tuner.space.anatomy import Access, Block, blocks_of

_LINE_BYTES = 64
#: A smaller weight stays in the nearest cache whatever its layout.
_LEAST_BYTES = 16 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """How one argument of a function is packed."""

    block: str
    axis: int  # of the block: it is split, too, so that all indices stay affine
    read: int  # place among the block's reads
    dimension: int  # of the weight: the one that the axis moves along
    width: int  # elements side by side


def find_panel(function: tirx.PrimFunc, argument: int) -> Panel | None:
    """How an argument could be packed; None if that would gain nothing.

    The block must reduce over the weight, use each weight for several outputs, and write outputs
    side by side along one dimension of the weight.
    """
    name = str(function.params[argument].name)
    found = [
        (block, read)
        for block in blocks_of(tvm.IRModule({"main": function})).values()
        for read, access in enumerate(block.reads)
        if access.buffer == name
    ]
    if len(found) != 1:
        return None
    block, read = found[0]
    weight = block.reads[read]
    axis = _vector_axis(block)
    if axis is None or not block.is_reduction or not _is_plain(weight):
        return None
    dimensions = [d for d, terms in enumerate(weight.terms) if terms == ((axis, 1),)]
    others = [access for access in block.reads if access is not weight]
    if len(dimensions) != 1 or any(access.moves_along(axis) for access in others):
        return None
    width = _width(weight, dimensions[0])
    if width is None or np.prod(weight.shape) * weight.element_bytes < _LEAST_BYTES:
        return None
    return Panel(block=block.name, axis=axis, read=read, dimension=dimensions[0], width=width)


def pack_function(function: tirx.PrimFunc, panel: Panel) -> tirx.PrimFunc:
    """The same function, taking the weight packed."""
    schedule = Schedule(tvm.IRModule({"main": function}))
    block = schedule.get_sblock(panel.block)
    axes = len(schedule.get(block).iter_vars)
    dimensions = len(schedule.get(block).reads[panel.read].region)

    def split_axis(*indices: Any) -> list[Any]:
        outer, inner = _split(indices[panel.axis], panel.width)
        return [*indices[: panel.axis], outer, inner, *indices[panel.axis + 1 :]]

    def split_dimension(*indices: Any) -> list[Any]:
        outer, inner = _split(indices[panel.dimension], panel.width)
        rest = [index for place, index in enumerate(indices) if place != panel.dimension]
        return [outer, *rest, inner]

    # The block first: the weight's new indices then are plain axes, which sketches need.
    schedule.transform_block_layout(block, _index_map(split_axis, axes))
    schedule.transform_layout(block, ("read", panel.read), _index_map(split_dimension, dimensions))
    return schedule.mod["main"]


def packed_shape(shape: tuple[int, ...], panel: Panel) -> tuple[int, ...]:
    """The shape of a packed weight."""
    rest = shape[: panel.dimension] + shape[panel.dimension + 1 :]
    return (shape[panel.dimension] // panel.width, *rest, panel.width)


def pack_array(array: npt.NDArray[np.generic], panel: Panel) -> npt.NDArray[np.generic]:
    """A weight's values, packed."""
    moved = np.moveaxis(array, panel.dimension, 0)
    panels = moved.reshape(-1, panel.width, *moved.shape[1:])
    return np.ascontiguousarray(np.moveaxis(panels, 1, -1))


def _vector_axis(block: Block) -> int | None:
    """The spatial axis along which outputs lie side by side."""
    terms = block.write.terms[-1] if block.write.terms else ()
    if len(terms) != 1 or terms[0][1] != 1 or block.axes[terms[0][0]].is_reduction:
        return None
    return terms[0][0]


def _is_plain(access: Access) -> bool:
    """Whether each dimension is one axis or a constant."""
    return all(len(terms) <= 1 and all(step == 1 for _, step in terms) for terms in access.terms)


def _width(weight: Access, dimension: int) -> int | None:
    line = max(1, _LINE_BYTES // weight.element_bytes)
    widths = (line, line // 2)
    extent = weight.shape[dimension]
    return next((w for w in widths if w > 1 and extent % w == 0 and extent > w), None)


def _split(index: Any, width: int) -> tuple[Any, Any]:
    return index // width, index % width


def _index_map(function: Any, indices: int) -> tirx.IndexMap:
    return tirx.IndexMap.from_func(function, ndim=indices, index_dtype="int64")
