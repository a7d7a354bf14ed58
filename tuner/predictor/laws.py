"""What the predictor asks of a kind of machine: its limits, and its law of tiles."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.cpu_laws import CpuLaws
from tune_farm.tuner.predictor.gpu_law import gpu_seconds
from tune_farm.tuner.predictor.gpu_laws import GpuLaws
from tune_farm.tuner.predictor.machine import Cpu, Gpu
from tune_farm.tuner.space.design import Plot
from tune_farm.tuner.space.sketch import Genes


class Laws(Protocol):
    """Judges drafts of one sketch, (drafts, decisions) int64, before anything is learned."""

    def fits(self, plot: Plot, genes: Genes) -> NDArray[np.bool_]:
        """Whether drafts keep to all limits, (drafts,) bool; all do where none is known."""
        ...

    def look(
        self, plot: Plot, genes: Genes
    ) -> tuple[NDArray[np.float64], NDArray[np.float32]] | None:
        """Seconds, (drafts,) float64, and features, (drafts, features) float32.

        None where no law covers the sketch.
        """
        ...


def laws_of(machine: Cpu | Gpu) -> Laws:
    """The laws of a share."""
    return GpuLaws(machine, law=gpu_seconds) if isinstance(machine, Gpu) else CpuLaws(machine)
