"""Limits and law of a GPU's share, for `TilePredictor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.cuda_tiles import cuda_tiles
from tune_farm.tuner.predictor.gpu_features import gpu_features
from tune_farm.tuner.predictor.gpu_limits import gpu_fits
from tune_farm.tuner.predictor.gpu_tiles import GpuTiles
from tune_farm.tuner.predictor.machine import Gpu
from tune_farm.tuner.predictor.tensor_limits import tensor_fits
from tune_farm.tuner.predictor.tensor_tiles import tensor_tiles
from tune_farm.tuner.space.design import Plot
from tune_farm.tuner.space.sketch import Genes

#: Seconds of one kernel, (drafts,) float64.
KernelLaw: TypeAlias = Callable[[GpuTiles, Gpu], NDArray[np.float64]]


def gpu_tiles(plot: Plot, genes: Genes) -> tuple[GpuTiles, ...] | None:
    """What each kernel of a sketch launches; None where no law covers the sketch."""
    if plot.tensor is not None:
        return (tensor_tiles(plot.tensor, plot.sketch, genes),)
    if plot.kernels is not None:
        return cuda_tiles(plot.kernels, plot.sketch, genes)
    return None


class GpuLaws:
    """The SMs of one share; implements `laws.Laws`."""

    def __init__(self, gpu: Gpu, *, law: KernelLaw | None = None) -> None:
        """Take a law.

        Args:
            gpu: the share.
            law: of one kernel; without it drafts are held to the limits, and none is predicted.
        """
        self._gpu = gpu
        self._law = law

    def fits(self, plot: Plot, genes: Genes) -> NDArray[np.bool_]:
        """Whether every kernel can be launched and is worth a build, (drafts,) bool."""
        if plot.tensor is not None:
            return tensor_fits(plot.tensor, plot.sketch, genes, self._gpu)
        if plot.kernels is None:
            return np.ones(len(genes), dtype=bool)
        return gpu_fits(plot.kernels, plot.sketch, genes, self._gpu)

    def look(
        self, plot: Plot, genes: Genes
    ) -> tuple[NDArray[np.float64], NDArray[np.float32]] | None:
        """Seconds of all kernels together, and features; None where no law covers the sketch."""
        tiles = gpu_tiles(plot, genes)
        if tiles is None or self._law is None:
            return None
        seconds = np.stack([self._law(each, self._gpu) for each in tiles])  # (kernels, drafts)
        return seconds.sum(axis=0), gpu_features(tiles, seconds, self._gpu)
