"""What ours is compared with: random, genetic, annealing and a learned model without a law.

The first three search as Kernel Tuner's strategies of these names do. Where those get stuck, or its
default settings are slow here, they are helped along: each is as good as we could make it. All
know the space's constraints: they only ever name configurations that are in it, and one that was
named before costs nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.replay.search import BATCH, Meter

Floats = NDArray[np.float64]

#: Kernel Tuner has 20, which took a quarter longer here.
_POPULATION = 10
#: A gene of a child is drawn anew once in so many.
_MUTATION = 10
#: Kernel Tuner starts at 1 and cools by 0.995 a step, which took three to five times as long here.
_HOTTEST, _COLDEST, _COOLING = 0.1, 1e-3, 0.98
#: Steps of annealing that name nothing new, after which it starts elsewhere.
_STUCK = 60
_FIRST = 16
#: The part of a learned model's batches that is drawn at random.
_RANDOM_PART = 0.125


def search_random(meter: Meter, rng: np.random.Generator) -> None:
    """Any order."""
    for row in rng.permutation(len(meter.space.seconds)):
        meter.measure(int(row))


def search_genetic(meter: Meter, rng: np.random.Generator) -> None:
    """Populations of 10, parents by rank, uniform crossover, one gene in ten mutated, an elite."""
    grid = Grid(meter.space.parameters)
    population = [grid.draw(rng) for _ in range(_POPULATION)]
    while True:
        known = len(meter.measured)
        population.sort(key=meter.measure)
        if len(meter.measured) == known:  # all of it is known: half of it makes way
            population[_POPULATION // 2 :] = [
                grid.draw(rng) for _ in range(_POPULATION - _POPULATION // 2)
            ]
            population.sort(key=meter.measure)
        weights = np.arange(_POPULATION, 0, -1.0)
        children = population[:1]
        while len(children) < _POPULATION:
            mother, father = rng.choice(_POPULATION, 2, replace=False, p=weights / weights.sum())
            children.append(grid.child(population[mother], population[father], rng))
        population = children


def search_annealing(meter: Meter, rng: np.random.Generator) -> None:
    """Steps to a neighbour, a worse one taken by chance, less often as it cools."""
    grid = Grid(meter.space.parameters)
    while True:
        here, heat, stuck = grid.draw(rng), _HOTTEST, 0
        energy = meter.measure(here)
        while heat > _COLDEST and stuck < _STUCK:
            known = len(meter.measured)
            there = grid.neighbour(here, rng)
            found = meter.measure(there)
            stuck = 0 if len(meter.measured) > known else stuck + 1
            worse = (found - energy) / energy if np.isfinite(energy) else -1.0
            if worse <= 0 or rng.random() < np.exp(-worse / heat):
                here, energy = there, found
            heat *= _COOLING


def search_learned(meter: Meter, rng: np.random.Generator) -> None:
    """Boosted trees on what ours learns from: 16 at random, then the best predicted."""
    rows = len(meter.space.seconds)
    for row in rng.permutation(rows)[:_FIRST]:
        meter.measure(int(row))
    while True:
        expected = learned_seconds(meter.space.decisions, meter.measured)
        expected[list(meter.measured)] = np.inf
        best = np.argsort(expected, kind="stable")
        for place in range(BATCH):
            if rng.random() < _RANDOM_PART:
                left = np.setdiff1d(np.arange(rows), list(meter.measured))
                if not len(left):
                    return
                meter.measure(int(rng.choice(left)))
            else:
                meter.measure(int(best[place]))


def learned_seconds(decisions: Floats, measured: dict[int, float]) -> Floats:
    """What trees expect of all configurations; the settings are those of our residual."""
    import xgboost

    rows = [row for row, seconds in measured.items() if np.isfinite(seconds)]
    model = xgboost.train(
        {
            "max_depth": 4,
            "eta": 0.15,
            "min_child_weight": 2,
            "subsample": 0.8,
            "lambda": 2.0,
            "nthread": 1,
            "seed": 0,
            "verbosity": 0,
        },
        xgboost.DMatrix(decisions[rows], np.log2([measured[row] for row in rows]), nthread=1),
        num_boost_round=60,
    )
    return np.exp2(model.predict(xgboost.DMatrix(decisions, nthread=1)).astype(np.float64))


class Grid:
    """Configurations by their parameters: those of a space are not all combinations."""

    def __init__(self, parameters: Floats) -> None:
        columns = [np.unique(column, return_inverse=True)[1] for column in parameters.T]
        self._places = np.stack(columns, axis=1)  #: (rows, parameters), places of the values
        self._counts = self._places.max(axis=0) + 1
        self._row_of = {tuple(place): row for row, place in enumerate(self._places.tolist())}

    def draw(self, rng: np.random.Generator) -> int:
        """Any configuration."""
        return int(rng.integers(len(self._places)))

    def child(self, mother: int, father: int, rng: np.random.Generator) -> int:
        """Each gene of one parent, some mutated; drawn again until it is in the space."""
        pair = self._places[[mother, father]]
        while True:
            genes = pair[rng.integers(2, size=pair.shape[1]), np.arange(pair.shape[1])]
            drawn = rng.integers(self._counts)
            row = self._row(np.where(rng.random(len(genes)) < 1 / _MUTATION, drawn, genes))
            if row is not None:
                return row

    def neighbour(self, row: int, rng: np.random.Generator) -> int:
        """A configuration with one gene changed, at random or to the next value, or two."""
        while True:
            genes = self._places[row].copy()
            for place in rng.choice(len(genes), 1 + int(rng.random() < 0.3), replace=False):
                if rng.random() < 0.5:
                    genes[place] += rng.choice((-1, 1))
                else:
                    genes[place] = rng.integers(self._counts[place])
            found = self._row(genes)
            if found is not None and found != row:
                return found

    def _row(self, genes: NDArray[np.int64]) -> int | None:
        return self._row_of.get(tuple(genes.tolist()))
