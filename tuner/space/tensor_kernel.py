"""What a sketch for tensor cores launches: one kernel whose warps multiply fragments.

Unlike the kernels of `kernels`, whose loops are followed one by one, these all have one form, which
TVM's rule gives them: tilings of rows, columns and of the sum, in fragments; two copies of operands
into shared memory; and one of the sums, through shared memory, that does what comes after them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tune_farm.tuner.space.anatomy import Access, Block
from tune_farm.tuner.space.decisions import Tiling
from tune_farm.tuner.space.sketch import Sketch

#: Parts of a spatial loop: blocks, blocks, warps, and two of what a warp runs through.
_SPATIAL_PARTS = 5
#: Parts of the sum: steps with new tiles in shared memory, with new fragments, and on them.
_SUM_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operand:
    """One of the two matrices: a copy into shared memory, and fragments that are read from it."""

    copy: Block
    fetch: int  # decision: elements of one vector load
    by_rows: bool  # whether it is the output's rows, and not its columns, that it has
    sum_is_last: bool  # whether elements of one sum lie side by side in shared memory
    alignment: tuple[int, int] | None  # rows start so many (second) after a multiple of (first)

    @property
    def is_vector(self) -> bool:
        """Whether elements side by side in shared memory are so in global memory, too."""
        last = len(self.copy.axes) - 1
        return bool(self.source.terms) and (last, 1) in self.source.terms[-1]

    @property
    def is_whole(self) -> bool:
        """Whether all that is copied is there, not padding, and lies as the copy does."""
        size = math.prod(self.source.shape)
        return size == math.prod(self.copy.write.shape) and not self.source.stairs

    @property
    def source(self) -> Access:
        """What is copied."""
        return next(read for read in self.copy.reads if read.scope == "global")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorKernel:
    """The one kernel of such a sketch."""

    products: int  # matrices side by side, each of blocks of its own
    rows: int  # decision: the tiling of rows, in fragments
    columns: int  # decision
    sums: int  # decision
    operands: tuple[Operand, Operand]
    out: Block  # reads staged sums, writes what comes of them
    out_fetch: int  # decision
    unroll: int | None  # decision: statements up to which loops are unrolled

    @property
    def is_ragged(self) -> bool:
        """Whether rows are padded, and run through several dimensions, as pixels do."""
        write = self.out.write
        axes = [axis for terms in write.terms for axis, _ in terms]
        padded = math.prod(axis.extent for axis in self.out.axes) > math.prod(write.shape)
        return padded and len(axes) > len(set(axes))

    @property
    def globals(self) -> tuple[Access, ...]:
        """Accesses to global memory."""
        blocks = (*(operand.copy for operand in self.operands), self.out)
        return tuple(
            access for block in blocks for access in block.accesses if access.scope == "global"
        )


def tensor_kernel_of(sketch: Sketch, blocks: Mapping[str, Block]) -> TensorKernel | None:
    """The kernel of a sketch; None where it is not of this form, or not all there is.

    Args:
        sketch: for tensor cores, postprocessors not yet applied.
        blocks: of the module that its trace was applied to, by name, in program order.
    """
    writers = {block.write.buffer: block for block in blocks.values()}
    # The block of one fragment comes before the one that runs through all of them.
    products = [b for b in blocks.values() if b.is_reduction and _scopes(b) == _FRAGMENTS]
    outs = [b for b in blocks.values() if b.reads and b.reads[0].scope == "shared"]
    if len(products) != 2 or len(outs) != 1:
        return None
    product, out = products[-1], outs[0]
    read = _Annotations(sketch)
    found = [
        _operand(place, access, product, writers, read)
        for place, access in enumerate(product.reads)
    ]
    operands = [operand for operand in found if operand is not None]
    tilings = [d for d in sketch.decisions if isinstance(d, Tiling)]
    parts = [tiling.parts for tiling in tilings]
    if len(operands) != 2 or parts != [_SPATIAL_PARTS, _SPATIAL_PARTS, _SUM_PARTS]:
        return None
    if read.out_fetch is None or not _is_all(blocks, product, operands, out):
        return None
    places = [sketch.decisions.index(tiling) for tiling in tilings]
    return TensorKernel(
        products=math.prod(axis.extent for axis in product.axes[:-_SUM_PARTS]),
        rows=places[0],
        columns=places[1],
        sums=places[2],
        operands=(operands[0], operands[1]),
        out=out,
        out_fetch=read.out_fetch,
        unroll=read.unroll,
    )


_FRAGMENTS = {"wmma.matrix_a", "wmma.matrix_b"}


def _scopes(block: Block) -> set[str]:
    """Where a block's operands are, its own sums left out."""
    return {read.scope for read in block.reads if read.buffer != block.write.buffer}


class _Annotations:
    """What a trace says of the copies that it makes of the product's operands and sums."""

    def __init__(self, sketch: Sketch) -> None:
        places = {d.instruction: place for place, d in enumerate(sketch.decisions)}
        self.fetches: dict[int, int] = {}  #: by operand: the decision of its vector loads
        self.alignments: dict[int, tuple[int, int]] = {}  #: by operand
        self.out_fetch: int | None = None  #: decision
        self.unroll: int | None = None  #: decision
        numbers: dict[str, int] = {}  # decision by name
        copies: dict[str, int] = {}  # operand by the name of its copy
        for place, (kind, inputs, attributes, outputs) in enumerate(sketch.instructions):
            if kind == "SampleCategorical":
                numbers[outputs[0]] = places[place]
            elif kind == "CacheRead" and attributes[1].startswith("shared"):
                copies[outputs[0]] = int(attributes[0])
            elif kind == "StorageAlign" and inputs[0] in copies:
                self.alignments[copies[inputs[0]]] = (int(attributes[2]), int(attributes[3]))
            elif kind == "Annotate" and inputs[1] in numbers:
                self._annotate(attributes[0], copies.get(inputs[0]), numbers[inputs[1]])

    def _annotate(self, key: str, operand: int | None, decision: int) -> None:
        if key == "meta_schedule.unroll_explicit":
            self.unroll = decision
        elif key == "meta_schedule.cooperative_fetch" and operand is None:
            self.out_fetch = decision
        elif key == "meta_schedule.cooperative_fetch":
            self.fetches[operand or 0] = decision


def _operand(
    place: int, access: Access, product: Block, writers: Mapping[str, Block], read: _Annotations
) -> Operand | None:
    fragments = writers.get(access.buffer)
    copy = fragments and writers.get(fragments.reads[0].buffer)
    axes = [terms[0][0] for terms in access.terms[-2:] if len(terms) == 1]
    if copy is None or place not in read.fetches or len(axes) != 2 or len(access.terms) < 2:
        return None
    rows, sums = len(product.axes) - _SUM_PARTS, len(product.axes) - 1
    return Operand(
        copy=copy,
        fetch=read.fetches[place],
        by_rows=rows in axes,
        sum_is_last=axes[-1] == sums,
        alignment=read.alignments.get(place),
    )


def _is_all(
    blocks: Mapping[str, Block], product: Block, operands: list[Operand], out: Block
) -> bool:
    """Whether no block is left that would be a kernel of its own."""
    known = {product.write.buffer, out.write.buffer, out.reads[0].buffer}
    known |= {read.buffer for read in product.reads}
    known |= {operand.copy.write.buffer for operand in operands}
    return all(block.write.buffer in known for block in blocks.values())
