"""The loops around a sketch's main block, with extents that follow from a draft's genes.

Replays a trace on names alone: which part of which axis each loop is does not depend on the
decisions, only the extents do. So one replay serves all drafts of a sketch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.space.anatomy import Block
from tune_farm.tuner.space.decisions import Choice, Location, Tiling
from tune_farm.tuner.space.sketch import Genes, Sketch

_TILED = "meta_schedule.tiling_structure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One part of one axis."""

    axis: int
    decision: int | None  # place in `Sketch.decisions`; None: the whole axis
    part: int  # which factor of the decision
    extent: int  # where there is no decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One loop; several pieces if loops were fused."""

    pieces: tuple[Piece, ...]
    binding: str = ""  # "blockIdx.x", "vthread.x", "threadIdx.x", or a plain loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Another block, computed inside the main block's loops."""

    block: str
    depth: int | None  # loops of the main block around it; None: `location` decides
    location: int | None  # place in `Sketch.decisions`


@dataclass(frozen=True, slots=True, kw_only=True)
class Nest:
    """The main block of a sketch and its loops, outermost first."""

    block: Block
    loops: tuple[Loop, ...]
    stages: tuple[Stage, ...]
    sketch: Sketch
    tiling: str  # "SSRSRS" on a CPU, "SSSRRSRS" on a GPU, "" where nothing is tiled

    @property
    def reduction_depth(self) -> int:
        """Loops down to the end of the outermost reduction tile: deeper, no block is computed."""
        reduces = [
            any(self.block.axes[piece.axis].is_reduction for piece in loop.pieces)
            for loop in self.loops
        ]
        first = reduces.index(True) if True in reduces else len(reduces)
        return next((i for i in range(first, len(reduces)) if not reduces[i]), len(reduces))

    def extents(self, genes: Genes) -> NDArray[np.int64]:
        """Extents of all loops: (drafts, loops) int64."""
        columns = [np.prod(self._factors(loop.pieces, genes), axis=0) for loop in self.loops]
        return np.stack(columns, axis=1)

    def covered(self, genes: Genes) -> NDArray[np.int64]:
        """How much of each axis is run through inside of the first loops, from none to all.

        Returns:
            (loops + 1, drafts, axes) int64.
        """
        shape = (len(self.loops) + 1, len(genes), len(self.block.axes))
        covered = np.ones(shape, dtype=np.int64)
        for depth in range(len(self.loops) - 1, -1, -1):
            covered[depth] = covered[depth + 1]
            pieces = self.loops[depth].pieces
            for piece, factors in zip(pieces, self._factors(pieces, genes), strict=True):
                covered[depth, :, piece.axis] *= factors
        return covered

    def choice(self, name: str, genes: Genes) -> NDArray[np.int64] | None:
        """The value of a sampled annotation, (drafts,) int64; None if the sketch has none."""
        for place, decision in enumerate(self.sketch.decisions):
            if isinstance(decision, Choice) and _annotated(self.sketch, decision) == name:
                return np.array(decision.options, dtype=np.int64)[genes[:, place]]
        return None

    def _factors(self, pieces: tuple[Piece, ...], genes: Genes) -> list[NDArray[np.int64]]:
        factors = []
        for piece in pieces:
            if piece.decision is None:
                factors.append(np.full(len(genes), piece.extent, dtype=np.int64))
                continue
            decision = self.sketch.decisions[piece.decision]
            assert isinstance(decision, Tiling)
            factors.append(decision.table[genes[:, piece.decision], piece.part])
        return factors


def nest_of(sketch: Sketch, blocks: Mapping[str, Block]) -> Nest | None:
    """The main block's nest.

    Args:
        sketch: with its trace.
        blocks: of the module that the sketch's trace was applied to, by name.

    Returns:
        None where the trace does what this replay does not follow.
    """
    replay = _Replay(sketch, blocks)
    for place, instruction in enumerate(sketch.instructions):
        if not replay.follow(place, instruction):
            return None
    return replay.nest()


class _Replay:
    """Names of a trace and what they stand for."""

    def __init__(self, sketch: Sketch, blocks: Mapping[str, Block]) -> None:
        self._sketch = sketch
        self._blocks = blocks
        self._places = {d.instruction: place for place, d in enumerate(sketch.decisions)}
        self._names: dict[str, str] = {}  #: block by the trace's name for it
        self._factors: dict[str, tuple[int, int]] = {}  #: (decision, part) by name
        self._loops: dict[str, Loop | None] = {}  #: loop by name; None: of no interest
        self._order: list[str] = []  #: the main block's loops by name, outermost first
        self._locations: dict[str, int] = {}  #: decision of a sampled loop, by name
        self._stages: list[Stage] = []
        self._tiling = ""
        self._main = ""

    def follow(self, place: int, instruction: Any) -> bool:
        """Take in one instruction; False if it is not understood."""
        kind, inputs, attributes, outputs = instruction
        handler = getattr(self, f"_{kind.lower()}", None)
        if handler is not None:
            handler(place, inputs, attributes, outputs)
        return handler is not None or kind in _HARMLESS

    def nest(self) -> Nest | None:
        """What was found, once all instructions were followed."""
        block = self._blocks.get(self._main)
        loops = [self._loops[name] for name in self._order]
        if block is None or not loops or any(loop is None for loop in loops):
            return None
        return Nest(
            block=block,
            loops=tuple(loop for loop in loops if loop is not None),
            stages=tuple(self._stages),
            sketch=self._sketch,
            tiling=self._tiling,
        )

    def _getsblock(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        self._names[outputs[0]] = attributes[0]

    def _annotate(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        if attributes[0] == _TILED:
            self._tiling = inputs[1].strip('"')
            self._main = self._names[inputs[0]]

    def _getloops(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        name = self._names.get(inputs[0])
        if name is None or (self._main and name != self._main):
            self._loops.update(dict.fromkeys(outputs))
            return
        block = self._blocks.get(name)
        if block is None or self._order or len(outputs) != len(block.axes):
            self._loops.update(dict.fromkeys(outputs))
            return
        self._main = name
        self._order = list(outputs)
        for index, (output, axis) in enumerate(zip(outputs, block.axes, strict=True)):
            whole = Piece(axis=index, decision=None, part=0, extent=axis.extent)
            self._loops[output] = Loop(pieces=(whole,))

    def _sampleperfecttile(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        for part, output in enumerate(outputs):
            self._factors[output] = self._places[place], part

    def _split(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        loop = self._loops.get(inputs[0])
        if loop is None or inputs[0] not in self._order or len(loop.pieces) > 1:
            self._loops.update(dict.fromkeys(outputs))
            return
        axis = loop.pieces[0].axis
        for output, factor in zip(outputs, inputs[1:], strict=True):
            decision, part = self._factors[factor]
            piece = Piece(axis=axis, decision=decision, part=part, extent=0)
            self._loops[output] = Loop(pieces=(piece,))
        self._replace(inputs[:1], outputs)

    def _fuse(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        loops = [self._loops.get(name) for name in inputs]
        if any(loop is None for loop in loops) or any(n not in self._order for n in inputs):
            self._loops[outputs[0]] = None
            return
        pieces = tuple(piece for loop in loops if loop is not None for piece in loop.pieces)
        self._loops[outputs[0]] = Loop(pieces=pieces)
        self._replace(inputs, outputs)

    def _reorder(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        if any(name not in self._order for name in inputs):
            return
        slots = sorted(self._order.index(name) for name in inputs)
        for slot, name in zip(slots, inputs, strict=True):
            self._order[slot] = name

    def _bind(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        loop = self._loops.get(inputs[0])
        if loop is not None:
            self._loops[inputs[0]] = replace(loop, binding=attributes[0])

    def _cacheread(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        block = self._blocks.get(self._main)
        reads = block.reads if block else ()
        index = int(attributes[0])
        # The main block reads the cached copy, which the copying block is named after.
        self._names[outputs[0]] = reads[index].buffer if index < len(reads) else ""

    def _cachewrite(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        block = self._blocks.get(self._main)
        writes = [access for access in block.accesses if access.is_write] if block else []
        self._names[outputs[0]] = writes[0].buffer if writes else ""

    def _samplecomputelocation(
        self, place: int, inputs: Any, attributes: Any, outputs: Any
    ) -> None:
        self._locations[outputs[0]] = self._places[place]

    def _computeat(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        block, loop = inputs[0], inputs[1]
        location = self._locations.get(loop)
        depth = self._order.index(loop) + 1 if loop in self._order else None
        if location is not None or depth is not None:
            name = self._names.get(block, "")
            self._stages.append(Stage(block=name, depth=depth, location=location))

    _reversecomputeat = _computeat

    def _getconsumers(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        for output in outputs:
            self._names[output] = ""  # an epilogue; its name does not matter

    _getproducers = _getconsumers

    def _replace(self, old: Any, new: Any) -> None:
        first = self._order.index(old[0])
        self._order = [name for name in self._order if name not in old]
        self._order[first:first] = list(new)


_HARMLESS = frozenset(
    {"ComputeInline", "ReverseComputeInline", "Unannotate", "SampleCategorical", "EnterPostproc"}
)


def _annotated(sketch: Sketch, choice: Choice) -> str:
    """The annotation that a sampled number goes to."""
    output = sketch.instructions[choice.instruction][3][0]
    for kind, inputs, attributes, _ in sketch.instructions:
        if kind == "Annotate" and inputs[1] == output:
            return str(attributes[0])
    return ""


def depths(stage: Stage, nest: Nest, genes: Genes) -> NDArray[np.int64]:
    """Loops around a stage in each draft, (drafts,) int64; -1 where it is inlined."""
    if stage.depth is not None:
        return np.full(len(genes), stage.depth, dtype=np.int64)
    assert stage.location is not None
    decision = nest.sketch.decisions[stage.location]
    assert isinstance(decision, Location)
    return np.array(decision.locations, dtype=np.int64)[genes[:, stage.location]] + 1
