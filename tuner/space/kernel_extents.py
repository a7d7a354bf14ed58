"""Extents of a kernel's loops and the regions its blocks run through, for many drafts at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.space.anatomy import Access
from tune_farm.tuner.space.decisions import Choice, Tiling
from tune_farm.tuner.space.kernels import Atom, Factor, Kernel, Loop, Member, Part, Split, Whole
from tune_farm.tuner.space.sketch import Genes, Sketch

Ints = NDArray[np.int64]


class Extents:
    """One kernel under many drafts; what was computed once is kept."""

    def __init__(self, kernel: Kernel, sketch: Sketch, genes: Genes) -> None:
        self._kernel = kernel
        self._sketch = sketch
        self._genes = genes
        self._members = {member.block.name: member for member in kernel.members}
        self._loops: dict[Loop, Ints] = {}
        self._domains: dict[tuple[str, frozenset[Loop]], Ints] = {}
        self._factors: dict[tuple[Split, int], Ints] = {}

    @property
    def ones(self) -> Ints:
        """(drafts,) int64."""
        return np.ones(len(self._genes), dtype=np.int64)

    def decided(self, decision: int) -> Ints:
        """The number that a choice stands for, (drafts,) int64."""
        choice = self._sketch.decisions[decision]
        assert isinstance(choice, Choice), choice
        return np.array(choice.options, dtype=np.int64)[self._genes[:, decision]]

    def loop(self, loop: Loop) -> Ints:
        """Iterations of a loop, (drafts,) int64."""
        if loop not in self._loops:
            self._loops[loop] = self._total(loop.atoms)
        return self._loops[loop]

    def iterations(self, loops: Iterable[Loop]) -> Ints:
        """Iterations of nested loops, (drafts,) int64."""
        total = self.ones
        for loop in loops:
            total = total * self.loop(loop)
        return total

    def bound(self, prefix: str) -> Ints:
        """Blocks ("blockIdx"), threads or virtual threads of the kernel, (drafts,) int64.

        A dimension counts once: blocks that share a kernel's threads bind loops of their own.
        """
        by_tag: dict[str, Loop] = {}
        for member in self._kernel.members:
            for loop in member.loops:
                if loop.binding.startswith(prefix):
                    by_tag.setdefault(loop.binding, loop)
        return self.iterations(by_tag.values())

    def region(self, member: Member, inside: Collection[Loop]) -> Ints:
        """How much of each axis a block runs through while some loops run, others standing still.

        Args:
            member: the block.
            inside: the loops that run, of those around it.

        Returns:
            (drafts, axes) int64.
        """
        around, own = member.loops[: member.depth], member.loops[member.depth :]
        domain = self._domain(member, frozenset(loop for loop in around if loop in inside))
        if all(loop in inside for loop in own):
            return domain
        atoms = [atom for loop in own if loop in inside for atom in loop.atoms]
        return np.minimum(domain, self._covered(member, atoms))

    def once(self, member: Member) -> Ints:
        """The region of one visit: all threads' where they share the result, else one's."""
        return self._domain(member, self._relaxed(member))

    def _relaxed(self, member: Member) -> frozenset[Loop]:
        """Loops around a block that its result is kept over: the threads, if it is shared."""
        around = member.loops[: member.depth]
        shared = member.is_shared
        return frozenset(loop for loop in around if shared and (loop.is_thread or loop.is_virtual))

    def _domain(self, member: Member, running: frozenset[Loop]) -> Ints:
        key = (member.block.name, running)
        if key not in self._domains:
            whole = np.array([axis.extent for axis in member.block.axes], dtype=np.int64)
            domain = np.tile(whole, (len(self._genes), 1))
            if member.depth:
                for other, theirs, ours in self._partners(member):
                    inside = running | frozenset(other.loops[member.depth :])
                    self._narrow(domain, self.region(other, inside), theirs, ours)
            self._domains[key] = domain
        return self._domains[key]

    def _partners(self, member: Member) -> list[tuple[Member, Access, Access]]:
        """Blocks of the kernel for which, or from which, it computes: the one buffer, twice."""
        users = [
            (other, access, member.write)
            for other in self._kernel.members
            for access in other.reads
            if other is not member and access.buffer == member.write.buffer
        ]
        makers = [
            (other, other.write, access)
            for other in self._kernel.members
            for access in member.reads
            if other is not member and not other.depth and access.buffer == other.write.buffer
        ]
        return (users or makers)[:1]

    def _narrow(self, domain: Ints, region: Ints, theirs: Access, ours: Access) -> None:
        """Cut axes down to what a partner needs of, or gives to, their buffer."""
        for mine, span in zip(ours.terms, theirs.spans(region), strict=True):
            if len(mine) == 1:
                axis, _ = mine[0]
                domain[:, axis] = np.minimum(domain[:, axis], span)

    def _covered(self, member: Member, atoms: list[Atom]) -> Ints:
        """How much of each axis some atoms run through, (drafts, axes) int64."""
        covered = np.ones((len(self._genes), len(member.block.axes)), dtype=np.int64)
        steps: dict[Split, Ints] = {}

        def take(atom: Atom, count: Ints) -> None:
            if isinstance(atom, Part):
                steps[atom.split] = steps.get(atom.split, self.ones) * count
            elif atom.block == member.block.name:
                covered[:, atom.axis] *= count

        for atom in atoms:
            take(atom, self._extent(atom))
        while steps:
            split = max(steps, key=lambda each: each.serial)  # the parts before what they are of
            left = steps.pop(split)
            # Steps through fused loops: whole turns of the innermost, then of the next.
            for atom in reversed(split.of):
                extent = self._extent(atom)
                take(atom, np.minimum(left, extent))
                left = -(-left // extent)
        return covered

    def _total(self, atoms: tuple[Atom, ...]) -> Ints:
        total = self.ones
        for atom in atoms:
            total = total * self._extent(atom)
        return total

    def _extent(self, atom: Atom) -> Ints:
        if isinstance(atom, Whole):
            member = self._members[atom.block]
            return self.once(member)[:, atom.axis]
        key = (atom.split, atom.place)
        if key not in self._factors:
            self._factors[key] = self._factor(atom.split, atom.split.factors[atom.place])
        return self._factors[key]

    def _factor(self, split: Split, factor: Factor) -> Ints:
        if factor.constant is not None:
            return self.ones * factor.constant
        if factor.decision is None:
            others = self.ones
            for other in split.factors:
                if not other.is_rest:
                    others = others * self._factor(split, other)
            return np.asarray(-(-self._total(split.of) // others))
        decision = self._sketch.decisions[factor.decision]
        if isinstance(decision, Tiling):
            return np.asarray(decision.table[self._genes[:, factor.decision], factor.part])
        return self.decided(factor.decision)
