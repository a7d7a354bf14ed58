"""The tile predictor: a law of waves and tiles, times what measurements taught."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.correction import Correction
from tune_farm.tuner.predictor.laws import laws_of
from tune_farm.tuner.predictor.lessons import Chapter, Lesson
from tune_farm.tuner.predictor.machine import Cpu, Gpu
from tune_farm.tuner.predictor.residual import Residual
from tune_farm.tuner.space.design import Plot
from tune_farm.tuner.space.scales import on_scales
from tune_farm.tuner.space.sketch import Genes

Floats = NDArray[np.float64]

#: Drafts that decisions are scaled by.
_REFERENCE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Of drafts of one sketch; all arrays are (drafts,) float64."""

    law: Floats  # seconds before anything was learned
    seconds: Floats
    doubt: Floats  # standard deviation of log2 of the seconds; 0 where it is not known


class TilePredictor:
    """Predicts drafts of any task on one share; one a client, so that tasks teach each other."""

    def __init__(
        self,
        machine: Cpu | Gpu,
        *,
        threads: int,
        corrects: bool = False,
        memory: Iterable[Chapter] = (),
    ) -> None:
        """Take the share.

        Args:
            machine: the share.
            threads: that learning may use.
            corrects: whether each sketch also learns from its own measurements alone, which then
                decide instead of what tasks taught each other.
            memory: what earlier runs learned of the same law.
        """
        self._laws = laws_of(machine)
        self._threads = threads
        self._corrects = corrects
        self._residual = Residual(threads=threads, memory=memory)
        #: By task and sketch; the plot is held so that its id stays its own.
        self._corrections: dict[tuple[str, int], tuple[Plot, Correction]] = {}

    def predict(self, task_id: str, plot: Plot, genes: Genes) -> Prediction | None:
        """Predict drafts of one sketch; None where no law covers it."""
        looked = self._laws.look(plot, genes)
        if looked is None:
            return None
        law, features = looked
        correction = self._correction(task_id, plot)
        if correction is not None and correction.is_ready:
            decisions = on_scales(plot.sketch, genes)
            seconds = law * correction.factor(decisions)
            return Prediction(law=law, seconds=seconds, doubt=correction.doubt(decisions))
        seconds = law * self._residual.factor(task_id, features)
        return Prediction(law=law, seconds=seconds, doubt=np.zeros(len(genes)))

    def fits(self, plot: Plot, genes: Genes) -> NDArray[np.bool_]:
        """Whether drafts keep to the limits of the machine and of a sane build, (drafts,) bool."""
        return self._laws.fits(plot, genes)

    def learn(self, task_id: str, plot: Plot, genes: Genes, measured_seconds: float) -> None:
        """Take in the time of one draft, (1, decisions) int64."""
        looked = self._laws.look(plot, genes)
        if looked is None:
            return
        law, features = looked
        self._residual.add(task_id, features[0], float(law[0]), measured_seconds)
        correction = self._correction(task_id, plot)
        if correction is not None:
            correction.add(on_scales(plot.sketch, genes)[0], float(law[0]), measured_seconds)

    def take_lessons(self) -> tuple[Lesson, ...]:
        """What was learned since this was last called, for other runs."""
        return self._residual.take()

    def _correction(self, task_id: str, plot: Plot) -> Correction | None:
        if not self._corrects:
            return None
        key = task_id, id(plot)
        if key not in self._corrections:
            drawn = plot.sketch.draw(_REFERENCE, np.random.default_rng(0))
            made = Correction(on_scales(plot.sketch, drawn), threads=self._threads)
            self._corrections[key] = plot, made
        return self._corrections[key][1]
