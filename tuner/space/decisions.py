"""The choices that a sketch leaves open; one gene, an index into a table, for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.space.tilings import tilings

#: What TVM calls "at the root" and "inlined" where it samples a compute location.
AT_ROOT = -1
INLINED = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """A loop is split into parts whose product is its extent."""

    instruction: int  # place in the trace
    extent: int
    parts: int
    most_innermost: int

    @property
    def table(self) -> NDArray[np.int64]:
        """(size, parts) int64: the factors, outermost first."""
        return tilings(self.extent, self.parts, self.most_innermost)

    @property
    def size(self) -> int:
        """How many values the gene has."""
        return len(self.table)

    def value(self, gene: int) -> list[int]:
        """The decision as a trace holds it."""
        return [int(factor) for factor in self.table[gene]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of a few numbers, such as how far loops are unrolled."""

    instruction: int
    options: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many values the gene has."""
        return len(self.options)

    def value(self, gene: int) -> int:
        """The decision as a trace holds it: the option's place."""
        return gene


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """At which loop of its consumer a block is computed."""

    instruction: int
    locations: tuple[int, ...]  # loops by depth, `AT_ROOT`, `INLINED`

    @property
    def size(self) -> int:
        """How many values the gene has."""
        return len(self.locations)

    def value(self, gene: int) -> int:
        """The decision as a trace holds it."""
        return self.locations[gene]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """A decision of a kind that is not varied: it stays as TVM drew it."""

    instruction: int
    drawn: Any  # as the trace holds it

    @property
    def size(self) -> int:
        """One value: the gene is there to keep places in order."""
        return 1

    def value(self, gene: int) -> Any:
        """The decision as a trace holds it."""
        return self.drawn


Decision: TypeAlias = Tiling | Choice | Location | Fixed
