"""Finds out whether a lowered function is a convolution that Winograd's algorithm can compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call, TensorLoad
from tvm.s_tir import Schedule

from tune_farm.sharding.winograd.matrices import KERNEL
from tune_farm.tuner.space.anatomy import Block, blocks_of

#: Fewer channels or filters are hardly more than transforms.
_LEAST_CHANNELS = 32
#: Both come in whole cache lines.
_CHANNEL_STEP = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """What a function does to each element of the convolution's result. Holds TVM objects."""

    operands: tuple[tuple[str, tuple[int, ...]], ...]  # name and shape of its other arguments
    #: For each dimension of each operand: the axis of the output that it follows, -1 for none.
    follows: tuple[tuple[int, ...], ...]
    expression: Any
    variables: tuple[Any, ...]  # of the expression: the output's four axes
    convolved: Any  # of the expression: the convolution's result at these axes
    buffers: tuple[Any, ...]  # of the expression: the operands

    def value(self, at: Sequence[Any], convolved: Any, operands: Sequence[Any]) -> Any:
        """The expression with other variables, and buffers of equal shapes."""
        names = (*self.variables, self.convolved, *self.buffers)
        new = dict(zip(names, (*at, convolved, *operands), strict=True))
        return tvm_ffi.structural_map(self.expression, (tirx.Var, lambda old: new.get(old, old)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """A 3x3 convolution of stride 1, channels last, and what is fused to it."""

    data: int  # place among the function's arguments
    weight: int  # place among the function's arguments
    others: tuple[int, ...]  # places of the epilogue's operands
    batch: int
    height: int
    width: int
    channels: int
    filters: int
    out_height: int
    out_width: int
    pad_top: int
    pad_left: int
    epilogue: Epilogue


def find_convolution(function: tirx.PrimFunc) -> Convolution | None:
    """Describe a function; None if Winograd's algorithm can't compute it."""
    blocks = blocks_of(tvm.IRModule({"main": function}))
    block = next((each for each in blocks.values() if _is_eligible(each)), None)
    if block is None:
        return None
    nodes = _nodes(function)
    regions = nodes[block.name].reads
    data, weight = (regions[block.reads.index(access)].source for access in block.reads)
    padded = _padding(nodes, data)
    convolved = nodes[block.name].writes[0].source
    epilogue = _epilogue(function, convolved)
    if padded is None or epilogue is None:
        return None
    source, pad_top, pad_left = padded
    places = [_place(function, buffer) for buffer in (source, weight, *epilogue.buffers)]
    if None in places or str(source.ty.dtype) != "float32":
        return None
    batch, height, width, channels = (int(size) for size in source.ty.shape)
    return Convolution(
        data=places[0] or 0,
        weight=places[1] or 0,
        others=tuple(place or 0 for place in places[2:]),
        batch=batch,
        height=height,
        width=width,
        channels=channels,
        filters=block.write.shape[3],
        out_height=block.write.shape[1],
        out_width=block.write.shape[2],
        pad_top=pad_top,
        pad_left=pad_left,
        epilogue=epilogue,
    )


def _is_eligible(block: Block) -> bool:
    """Whether a block sums over 3x3 neighbours and all channels, with a stride of 1."""
    if not block.name.startswith("conv2d_nhwc") or len(block.reads) != 2:
        return False
    data, weight = block.reads
    sizes = {axis: each.extent for axis, each in enumerate(block.axes) if each.is_reduction}
    if len(sizes) != 3 or len(data.terms) != 4 or data.stairs or weight.stairs:
        return False
    rows, columns, (channel, *none) = (_summed(terms, sizes) for terms in data.terms[1:])
    if none or data.terms[3] != ((channel, 1),):
        return False
    # An output's row and a kernel's row, each moving the input's row by one.
    plain = all(
        len(terms) == 2 and all(step == 1 for _, step in terms) and len(summed) == 1
        for terms, summed in zip(data.terms[1:3], (rows, columns), strict=True)
    )
    kernel = weight.terms[-4:-1] if len(weight.terms) == 4 else weight.terms[1:4]
    return (
        plain
        and [sizes[rows[0]], sizes[columns[0]]] == [KERNEL, KERNEL]
        and list(kernel) == [((axis, 1),) for axis in (rows[0], columns[0], channel)]
        and all(
            size >= _LEAST_CHANNELS and size % _CHANNEL_STEP == 0
            for size in (sizes[channel], block.write.shape[3])
        )
    )


def _summed(terms: tuple[tuple[int, int], ...], sizes: dict[int, int]) -> list[int]:
    """The reduction axes that an index moves along; -1 for none."""
    return [axis for axis, _ in terms if axis in sizes] or [-1]


def _nodes(function: tirx.PrimFunc) -> dict[str, Any]:
    """All blocks by name, as TVM's nodes."""
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, found.append), order="post")
    return {str(node.name_hint): node for node in found}


def _place(function: tirx.PrimFunc, buffer: Any) -> int | None:
    return next((i for i, each in enumerate(function.params) if each.same_as(buffer)), None)


def _padding(nodes: dict[str, Any], data: Any) -> tuple[Any, int, int] | None:
    """What a convolution's input is, and its rows above and columns to the left that are zero."""
    writer = next(
        (n for n in nodes.values() if n.iter_vars and n.writes[0].source.same_as(data)), None
    )
    if writer is None:
        return data, 0, 0
    if not isinstance(writer.body, tirx.BufferStore) or len(writer.reads) != 1:
        return None
    value = writer.body.value
    if isinstance(value, Call) and str(value.op.name).endswith("if_then_else"):
        if not _is_zero(value.args[2]):
            return None
        value = value.args[1]
    if not isinstance(value, TensorLoad):
        return None
    source = value.source
    variables = [axis.var for axis in writer.iter_vars]
    offsets = []
    for index, variable in zip(value.indices, variables, strict=True):
        shift = tvm.sym.Analyzer().simplify(variable - index)
        if not isinstance(shift, tirx.IntImm):
            return None
        offsets.append(int(shift))
    if len(offsets) != 4 or offsets[0] or offsets[3] or min(offsets) < 0:
        return None
    return source, offsets[1], offsets[2]


def _is_zero(value: Any) -> bool:
    return isinstance(value, tirx.FloatImm) and float(value) == 0.0


def _epilogue(function: tirx.PrimFunc, convolved: Any) -> Epilogue | None:
    """What comes after the convolution, if it is done element by element."""
    output = function.params[-1]
    value = tirx.Var("convolved", "float32")
    if output.same_as(convolved):
        return Epilogue(
            operands=(),
            follows=(),
            expression=value,
            variables=tuple(tirx.Var(name, "int64") for name in "nyxc"),
            convolved=value,
            buffers=(),
        )
    block = _inlined(function, convolved)
    if block is None or not isinstance(block.body, tirx.BufferStore):
        return None
    variables = [axis.var for axis in block.iter_vars]
    if not _is_at(block.body.indices, variables) or list(output.ty.shape) != list(
        convolved.ty.shape
    ):
        return None
    loads: list[Any] = []
    tvm_ffi.structural_walk(block.body.value, (TensorLoad, loads.append), order="post")
    own = [load for load in loads if load.source.same_as(convolved)]
    others = [load for load in loads if not load.source.same_as(convolved)]
    follows = [_follows(load.indices, variables) for load in others]
    if not own or not all(_is_at(load.indices, variables) for load in own) or None in follows:
        return None

    def replace(load: Any) -> Any:
        return value if load.source.same_as(convolved) else load

    kept = {
        str(load.source.name): (load.source, axes)
        for load, axes in zip(others, follows, strict=True)
    }
    if any(
        kept[str(load.source.name)][1] != axes for load, axes in zip(others, follows, strict=True)
    ):
        return None  # one operand read in two ways
    return Epilogue(
        operands=tuple(
            (name, tuple(int(size) for size in buffer.ty.shape))
            for name, (buffer, _) in kept.items()
        ),
        follows=tuple(axes or () for _, axes in kept.values()),
        expression=tvm_ffi.structural_map(block.body.value, (TensorLoad, replace)),
        variables=tuple(variables),
        convolved=value,
        buffers=tuple(buffer for buffer, _ in kept.values()),
    )


def _inlined(function: tirx.PrimFunc, convolved: Any) -> Any | None:
    """The one block that is left of what follows the convolution; None if that is not possible."""
    root = function.body.block
    statements = list(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]
    writes = [_writes(statement, convolved) for statement in statements]
    rest = statements[writes.index(True) + 1 :]
    kept = [
        b
        for b in root.alloc_buffers
        if not b.same_as(convolved) and any(_writes(s, b) for s in rest)
    ]
    body = rest[0] if len(rest) == 1 else tirx.SeqStmt(rest)
    block = s_tir.SBlock([], [], [], "root", body, alloc_buffers=kept)
    params = [convolved, *function.params]
    tail = tirx.PrimFunc(params, s_tir.SBlockRealize([], tirx.const(True), block))
    names = [name for name, node in _nodes(tail).items() if node.iter_vars]
    try:
        schedule = Schedule(tvm.IRModule({"main": tail.with_attr("global_symbol", "main")}))
        for name in names[:-1]:
            schedule.compute_inline(schedule.get_sblock(name))
        return schedule.get(schedule.get_sblock(names[-1]))
    except (RuntimeError, ValueError):  # TVM's schedule errors: no chain of elements
        return None


def _writes(statement: Any, buffer: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(statement, (tirx.BufferStore, found.append), order="post")
    return any(store.buffer.same_as(buffer) for store in found)


def _is_at(indices: Sequence[Any], variables: Sequence[Any]) -> bool:
    return len(indices) == len(variables) and all(
        index.same_as(variable) for index, variable in zip(indices, variables, strict=True)
    )


def _follows(indices: Sequence[Any], variables: Sequence[Any]) -> tuple[int, ...] | None:
    """The axis that each index is, -1 where it is 0; None if one is anything else."""
    found = []
    for index in indices:
        axis = next((a for a, each in enumerate(variables) if index.same_as(each)), None)
        if axis is None and not (isinstance(index, tirx.IntImm) and int(index) == 0):
            return None
        found.append(-1 if axis is None else axis)
    return tuple(found)
