"""A sweep: one operator's drafts, drawn at random, with the times that this project measured."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.machine import Cpu
from tune_farm.tuner.space.design import DesignSpace
from tune_farm.tuner.space.sketch import Genes, Sketch
from tune_farm.tuner.types import Task, TensorSpec

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: In rows of sketches with fewer decisions than the longest.
_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Distinct drafts within the limits, each built and measured once; the best ones again."""

    task: Task
    machine: str  # its name
    cpu: Cpu  # as the laws saw the share that measured
    seed: int  # of the design space
    sketches: tuple[str, ...]  # a digest of each
    plots: Ints  # (drafts,) which sketch
    genes: Ints  # (drafts, decisions of the longest sketch)
    seconds: Floats  # (drafts,), infinite where it failed
    finalists: Ints  # (finalists,) rows that were measured again
    final_seconds: Floats  # (finalists, rounds)

    def __post_init__(self) -> None:
        assert len(self.plots) == len(self.genes) == len(self.seconds), self.task.name
        assert len(self.finalists) == len(self.final_seconds), self.task.name

    def open_space(self) -> DesignSpace:
        """The design space that the drafts are of; imports TVM.

        Raises:
            ValueError: its sketches are not those of the recording.
        """
        space = DesignSpace(self.task, seed=self.seed)
        if tuple(digest(plot.sketch) for plot in space.plots) != self.sketches:
            raise ValueError(f"{self.task.name}: recorded with other sketches; record it again")
        return space

    def genes_of(self, plot: int, sketch: Sketch) -> tuple[Ints, Genes]:
        """Rows of the drafts of one sketch, (n,), and their genes, (n, decisions)."""
        rows = np.flatnonzero(self.plots == plot)
        return rows, self.genes[rows, : len(sketch.decisions)]

    @property
    def truth(self) -> Floats:
        """Seconds of every draft, (drafts,): the median of what was measured again, where it was.

        What was measured once and is not among the finalists is behind all of them.
        """
        final = np.median(self.final_seconds, axis=1)
        known: Floats = np.maximum(self.seconds, np.nextafter(final.max(), np.inf))
        known[self.finalists] = final
        return known

    @property
    def noise(self) -> float:
        """How far medians of one finalist's rounds stray: the relative standard error, typically.

        Of the median of n normal values it is 1.25 times that of their mean.
        """
        rounds = self.final_seconds.shape[1]
        spread = self.final_seconds.std(axis=1, ddof=1) / self.final_seconds.mean(axis=1)
        return float(1.25 * np.median(spread) / np.sqrt(rounds))


def digest(sketch: Sketch) -> str:
    """What must be equal for genes to mean the same."""
    text = json.dumps([sketch.instructions, [str(each) for each in sketch.decisions]])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def padded(rows: list[Genes]) -> Ints:
    """Genes of several sketches as one array."""
    width = max(len(row) for row in rows)
    found = np.full((len(rows), width), _NONE, dtype=np.int64)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return found


def save(sweep: Sweep, path: Path) -> None:
    """Write a sweep, whole or not at all: some 50 kB for 2,000 drafts."""
    facts = {
        "task": asdict(sweep.task),
        "machine": sweep.machine,
        "cpu": asdict(sweep.cpu),
        "seed": sweep.seed,
        "sketches": sweep.sketches,
    }
    part = path.with_suffix(".part.npz")
    np.savez_compressed(
        part,
        facts=np.array(json.dumps(facts)),
        plots=sweep.plots.astype(np.int8),
        genes=sweep.genes.astype(np.int16),
        seconds=sweep.seconds.astype(np.float32),
        finalists=sweep.finalists.astype(np.int16),
        final_seconds=sweep.final_seconds.astype(np.float32),
    )
    part.replace(path)


def load(path: Path) -> Sweep:
    """Read a sweep."""
    with np.load(path) as file:
        facts: dict[str, Any] = json.loads(str(file["facts"]))
        return Sweep(
            task=_task(facts["task"]),
            machine=facts["machine"],
            cpu=Cpu(**{key: _frozen(value) for key, value in facts["cpu"].items()}),
            seed=facts["seed"],
            sketches=tuple(facts["sketches"]),
            plots=file["plots"].astype(np.int64),
            genes=file["genes"].astype(np.int64),
            seconds=file["seconds"].astype(np.float64),
            finalists=file["finalists"].astype(np.int64),
            final_seconds=file["final_seconds"].astype(np.float64),
        )


def _task(facts: dict[str, Any]) -> Task:
    arguments = tuple(
        TensorSpec(shape=tuple(each["shape"]), dtype=each["dtype"], is_output=each["is_output"])
        for each in facts["arguments"]
    )
    return Task(**{**facts, "arguments": arguments})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
