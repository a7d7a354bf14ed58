"""A sketch: a trace whose decisions are left open, and drafts of it as rows of genes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.space.decisions import Choice, Decision, Fixed, Location, Tiling

#: (drafts, decisions) int64: each column an index into the table of its decision.
Genes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """One sketch of a task. Drafts of it differ in their genes alone."""

    instructions: tuple[Any, ...]  # as TVM writes them: [kind, inputs, attributes, outputs]
    decisions: tuple[Decision, ...]

    @classmethod
    def parse(cls, trace_json: str, locations: tuple[int, ...]) -> Sketch:
        """Read a sketch from the trace of one of its schedules.

        Args:
            trace_json: the trace, with decisions of any value.
            locations: where blocks may be computed that are free to move.
        """
        instructions, decided = json.loads(trace_json)
        values = {int(place): value for place, value in decided}
        return cls(
            instructions=tuple(instructions),
            decisions=tuple(
                _decision(place, instructions[place], value, locations)
                for place, value in sorted(values.items())
            ),
        )

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(decisions,) int64: how many values each gene has."""
        return np.array([decision.size for decision in self.decisions], dtype=np.int64)

    @property
    def size(self) -> int:
        """How many drafts there are."""
        return math.prod(decision.size for decision in self.decisions)

    def draw(self, count: int, rng: np.random.Generator) -> Genes:
        """Draw drafts, each gene uniform over its values."""
        return rng.integers(0, self.sizes, size=(count, len(self.decisions)), dtype=np.int64)

    def vary(self, genes: Genes, rng: np.random.Generator) -> Genes:
        """Draw one gene of each draft anew; does not modify `genes`."""
        varied = genes.copy()
        open_genes = np.flatnonzero(self.sizes > 1)
        if not len(genes) or not len(open_genes):
            return varied
        columns = rng.choice(open_genes, size=len(genes))
        varied[np.arange(len(genes)), columns] = rng.integers(0, self.sizes[columns])
        return varied

    def cross(self, first: Genes, second: Genes, rng: np.random.Generator) -> Genes:
        """Take each gene from one of two parents of equal row."""
        return np.where(rng.random(first.shape) < 0.5, first, second)

    def encode(self, values: Mapping[int, Any]) -> Genes | None:
        """The genes of a trace's decisions, by place; None if it is no draft of this sketch."""
        genes = []
        for decision in self.decisions:
            gene = _gene(decision, values.get(decision.instruction))
            if gene is None:
                return None
            genes.append(gene)
        return np.array(genes, dtype=np.int64)

    def trace_json(self, genes: Genes) -> str:
        """The trace of one draft, (decisions,) int64, as JSON text that TVM replays."""
        decided = [
            [decision.instruction, decision.value(int(gene))]
            for decision, gene in zip(self.decisions, genes, strict=True)
        ]
        return json.dumps([self.instructions, decided], separators=(",", ":"))


def _decision(place: int, instruction: Any, value: Any, locations: tuple[int, ...]) -> Decision:
    kind, _, attributes, _ = instruction
    if kind == "SamplePerfectTile":
        parts, most_innermost = attributes
        return Tiling(
            instruction=place,
            extent=math.prod(value),
            parts=int(parts),
            most_innermost=int(most_innermost),
        )
    if kind == "SampleCategorical":
        return Choice(instruction=place, options=tuple(int(option) for option in attributes[0]))
    if kind == "SampleComputeLocation":
        return Location(instruction=place, locations=locations)
    return Fixed(instruction=place, drawn=value)


def _gene(decision: Decision, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(decision, Tiling):
        found = np.flatnonzero((decision.table == np.array(value)).all(axis=1))
        return int(found[0]) if len(found) else None
    if isinstance(decision, Choice):
        return int(value) if 0 <= int(value) < decision.size else None
    if isinstance(decision, Fixed):
        return 0 if value == decision.drawn else None
    return decision.locations.index(value) if value in decision.locations else None
