"""The kernels that a sketch for a GPU launches: their blocks, and the loops around each.

A GPU's sketch may launch several kernels, and each may hold several blocks: a tile and the copies
that feed it, a reduction and what uses its result. Loops are kept as parts of axes, by name; their
extents follow from a draft's genes (`kernel_extents`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tune_farm.tuner.space.anatomy import Access, Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """The size of one part of a split loop: decided, constant, or what the others leave."""

    decision: int | None = None  # place in `Sketch.decisions`
    part: int = 0  # which factor of a tiling
    constant: int | None = None

    @property
    def is_rest(self) -> bool:
        """Whether it is what the other parts leave, rounded up."""
        return self.decision is None and self.constant is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole axis of a block, as far as the block runs through it at a time."""

    block: str
    axis: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """A loop that was split. Each is its own: two of equal content are different loops."""

    of: tuple[Atom, ...]
    factors: tuple[Factor, ...]  # outermost first
    serial: int  # a loop is split before its parts are: children have greater numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a split loop."""

    split: Split
    place: int


Atom: TypeAlias = Whole | Part


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loop:
    """One loop; several atoms if loops were fused."""

    atoms: tuple[Atom, ...]
    binding: str  # "blockIdx.x", "vthread.x", "threadIdx.x", or "" for a plain loop
    versions: int  # copies that a software pipeline keeps of what is loaded inside

    @property
    def is_grid(self) -> bool:
        """Whether its iterations are blocks of threads."""
        return self.binding.startswith("blockIdx")

    @property
    def is_thread(self) -> bool:
        """Whether its iterations are threads."""
        return self.binding.startswith("threadIdx")

    @property
    def is_virtual(self) -> bool:
        """Whether its iterations are virtual threads: unrolled in each real one."""
        return self.binding.startswith("vthread")

    @property
    def is_serial(self) -> bool:
        """Whether one thread runs through it."""
        return not self.binding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Member:
    """One block of a kernel."""

    block: Block
    loops: tuple[Loop, ...]  # outermost first; the first `depth` are another member's
    depth: int
    fetch: int | None  # decision: elements of one vector load where threads fetch together

    @property
    def write(self) -> Access:
        """What it computes."""
        return self.block.write

    @property
    def reads(self) -> tuple[Access, ...]:
        """What it reads, its own accumulators left out."""
        return tuple(
            access
            for access in self.block.accesses
            if not access.is_write and access.buffer != self.write.buffer
        )

    @property
    def is_shared(self) -> bool:
        """Whether the threads of a block use its result together."""
        return self.write.scope.startswith("shared")

    @property
    def reduces_across_threads(self) -> bool:
        """Whether threads sum up together."""
        return any(loop.is_thread and self.sums_over(loop) for loop in self.loops[self.depth :])

    def sums_over(self, loop: Loop) -> bool:
        """Whether a loop, one of its own, runs through reduction axes."""
        return any(
            whole.block == self.block.name and self.block.axes[whole.axis].is_reduction
            for atom in loop.atoms
            for whole in wholes(atom)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kernel:
    """What one launch runs."""

    members: tuple[Member, ...]  # in program order
    unroll: int | None  # decision: statements up to which loops are unrolled
    fewest_threads: int  # of a block, that TVM accepts
    most_threads: int

    @property
    def anchor(self) -> Member:
        """The member around whose loops the others were placed."""
        return next(member for member in self.members if not member.depth)

    @property
    def is_tiled(self) -> bool:
        """Whether its threads fetch tiles together that each then uses many times."""
        return any(member.fetch is not None for member in self.members)


def wholes(atom: Atom) -> list[Whole]:
    """The axes that an atom is a part of."""
    if isinstance(atom, Whole):
        return [atom]
    return [whole for each in atom.split.of for whole in wholes(each)]
