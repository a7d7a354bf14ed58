"""Follows a trace by name to the kernels that its schedules launch, whatever the decisions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from tune_farm.tuner.space.anatomy import Block
from tune_farm.tuner.space.kernels import Atom, Factor, Kernel, Loop, Member, Part, Split, Whole
from tune_farm.tuner.space.sketch import Sketch

#: The most threads that a block may have where the trace names no bound; TVM asks the target.
_NO_BOUND = 2**31 - 1
#: What moves no loop that is left in the end.
_HARMLESS = frozenset(
    {"ComputeInline", "ReverseComputeInline", "Unannotate", "SetScope", "EnterPostproc"}
)


class _UnknownError(Exception):
    """The trace does what is not followed here."""


class _Moving:
    """A loop while the trace goes on: its atoms stay, its binding comes later."""

    def __init__(self, *atoms: Atom) -> None:
        self.atoms = atoms
        self.binding = ""
        self.versions = 1


def kernels_of(sketch: Sketch, blocks: Mapping[str, Block]) -> tuple[Kernel, ...] | None:
    """The kernels of a sketch, in the order of their launch.

    Args:
        sketch: with its trace, postprocessors not yet applied.
        blocks: of the module that the sketch's trace was applied to, by name, in program order.

    Returns:
        None where the trace does what this replay does not follow.
    """
    replay = _Replay(sketch, blocks)
    try:
        for place, (kind, inputs, attributes, outputs) in enumerate(sketch.instructions):
            if kind == "EnterPostproc":
                break
            replay.follow(place, kind, inputs, attributes, outputs)
        return replay.kernels()
    except _UnknownError:
        return None


class _Replay:
    """Names of a trace and what they stand for."""

    def __init__(self, sketch: Sketch, blocks: Mapping[str, Block]) -> None:
        self._blocks = blocks
        self._places = {d.instruction: place for place, d in enumerate(sketch.decisions)}
        self._names: dict[str, str] = {}  #: block by the trace's name for it
        self._numbers: dict[str, Factor] = {}  #: sampled numbers by name
        self._loops: dict[str, _Moving] = {}  #: loops by name
        self._paths: dict[str, list[_Moving]] = {}  #: loops around a block, outermost first
        self._depths: dict[str, int] = {}  #: how many of them are another block's
        self._fetches: dict[str, int] = {}  #: decision of a block's vector loads
        self._bounds: dict[str, dict[str, int]] = {}  #: of the threads, by block
        self._unroll: int | None = None
        self._serial = itertools.count()

    def follow(self, place: int, kind: str, inputs: Any, attributes: Any, outputs: Any) -> None:
        """Take in one instruction."""
        handler = getattr(self, f"_{kind.lower()}", None)
        if handler is not None:
            handler(place, inputs, attributes, outputs)
        elif kind not in _HARMLESS:
            raise _UnknownError(kind)

    def kernels(self) -> tuple[Kernel, ...]:
        """What was found, once all instructions were followed."""
        done: dict[int, Loop] = {}
        members: dict[int, list[Member]] = {}
        for name, block in self._blocks.items():
            path = self._path(name)
            if not path:
                raise _UnknownError(name)
            members.setdefault(id(path[0]), []).append(
                Member(
                    block=block,
                    loops=tuple(done.setdefault(id(each), _finished(each)) for each in path),
                    depth=self._depths.get(name, 0),
                    fetch=self._fetches.get(name),
                )
            )
        return tuple(self._kernel(tuple(each)) for each in members.values())

    def _kernel(self, members: tuple[Member, ...]) -> Kernel:
        loops = [loop for member in members for loop in member.loops]
        if not any(loop.is_grid for loop in loops) or not any(loop.is_thread for loop in loops):
            raise _UnknownError("left to a postprocessor to bind")
        bounds = [self._bounds.get(member.block.name, {}) for member in members]
        return Kernel(
            members=members,
            unroll=self._unroll,
            fewest_threads=max(each.get("low", 1) for each in bounds),
            most_threads=min(each.get("high", _NO_BOUND) for each in bounds),
        )

    def _path(self, name: str) -> list[_Moving]:
        if name not in self._paths:
            axes = len(self._blocks[name].axes)
            self._paths[name] = [_Moving(Whole(block=name, axis=axis)) for axis in range(axes)]
        return self._paths[name]

    def _block(self, name: str) -> str:
        found = self._names.get(name, "")
        if found not in self._blocks:
            raise _UnknownError(name)
        return found

    def _loop(self, name: str) -> _Moving:
        if name not in self._loops:
            raise _UnknownError(name)
        return self._loops[name]

    def _getsblock(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        self._names[outputs[0]] = attributes[0]

    def _getloops(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        path = self._path(self._block(inputs[0]))
        if len(path) != len(outputs):
            raise _UnknownError(inputs[0])
        self._loops.update(zip(outputs, path, strict=True))

    def _sampleperfecttile(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        for part, output in enumerate(outputs):
            self._numbers[output] = Factor(decision=self._places[place], part=part)

    def _samplecategorical(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        self._numbers[outputs[0]] = Factor(decision=self._places[place])

    def _factor(self, given: Any) -> Factor:
        if isinstance(given, int):
            return Factor(constant=given)
        if given in (None, "None"):
            return Factor()
        if given not in self._numbers:
            raise _UnknownError(given)
        return self._numbers[given]

    def _split(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        old = self._loop(inputs[0])
        factors = tuple(self._factor(each) for each in inputs[1:])
        split = Split(of=old.atoms, factors=factors, serial=next(self._serial))
        parts = [_Moving(Part(split=split, place=place)) for place in range(len(factors))]
        self._loops.update(zip(outputs, parts, strict=True))
        self._replace([old], parts)

    def _fuse(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        old = [self._loop(name) for name in inputs]
        fused = _Moving(*(atom for loop in old for atom in loop.atoms))
        self._loops[outputs[0]] = fused
        self._replace(old, [fused])

    def _replace(self, old: list[_Moving], new: list[_Moving]) -> None:
        for name, path in self._paths.items():
            if old[-1] not in path:
                if old[0] in path:
                    raise _UnknownError(name)  # the loops end between the fused ones
                continue
            first = path.index(old[0])
            if path[first : first + len(old)] != old:
                raise _UnknownError(name)
            path[first : first + len(old)] = new
            if self._depths.get(name, 0) > first:
                self._depths[name] += len(new) - len(old)

    def _reorder(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        moved = [self._loop(name) for name in inputs]
        for name, path in self._paths.items():
            slots = sorted(path.index(loop) for loop in moved if loop in path)
            if not slots:
                continue
            if len(slots) != len(moved):
                raise _UnknownError(name)
            for slot, loop in zip(slots, moved, strict=True):
                path[slot] = loop

    def _bind(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        self._loop(inputs[0]).binding = attributes[0]

    def _annotate(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        key = attributes[0].removeprefix("meta_schedule.")
        if key == "cooperative_fetch":
            decision = self._factor(inputs[1]).decision
            if decision is None:
                raise _UnknownError(key)
            self._fetches[self._block(inputs[0])] = decision
        elif key == "unroll_explicit":
            self._unroll = self._factor(inputs[1]).decision
        elif key in ("thread_extent_low_inclusive", "thread_extent_high_inclusive"):
            end = "low" if "low" in key else "high"
            self._bounds.setdefault(self._block(inputs[0]), {})[end] = int(inputs[1])
        elif key == "software_pipeline_stage":
            # A stage's result lives until the last stage has used it: a copy for each between.
            self._loop(inputs[0]).versions = max(inputs[1]) - min(inputs[1]) + 1

    def _cacheread(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        # The reader reads the copy by now.
        reads = [a for a in self._blocks[self._block(inputs[0])].accesses if not a.is_write]
        index = int(attributes[0])
        if index >= len(reads):
            raise _UnknownError(inputs[0])
        copies = [
            name
            for name, block in self._blocks.items()
            if any(a.is_write and a.buffer == reads[index].buffer for a in block.accesses)
        ]
        self._names[outputs[0]] = copies[0] if len(copies) == 1 else ""

    def _cachewrite(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        # The writer writes the copy by now, and one block copies it out.
        writes = [a for a in self._blocks[self._block(inputs[0])].accesses if a.is_write]
        copies = [
            name
            for name, block in self._blocks.items()
            if any(not a.is_write and a.buffer == writes[0].buffer for a in block.accesses)
            and name != self._block(inputs[0])
        ]
        self._names[outputs[0]] = copies[0] if len(copies) == 1 else ""

    def _computeat(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        name, loop = self._block(inputs[0]), self._loop(inputs[1])
        around = next((path for path in self._paths.values() if loop in path), None)
        if around is None:
            raise _UnknownError(inputs[1])
        depth = around.index(loop) + 1
        self._paths.pop(name, None)
        self._paths[name] = [*around[:depth], *self._path(name)]
        self._depths[name] = depth

    _reversecomputeat = _computeat

    def _getconsumers(self, place: int, inputs: Any, attributes: Any, outputs: Any) -> None:
        block = self._blocks[self._block(inputs[0])]
        written = {access.buffer for access in block.accesses if access.is_write}
        readers = [
            name
            for name, each in self._blocks.items()
            if name != block.name and any(a.buffer in written for a in each.accesses)
        ]
        # Some may be inlined later in the trace; then it is not known which is which.
        if len(readers) == len(outputs):
            self._names.update(zip(outputs, readers, strict=True))


def _finished(loop: _Moving) -> Loop:
    return Loop(atoms=loop.atoms, binding=loop.binding, versions=loop.versions)
