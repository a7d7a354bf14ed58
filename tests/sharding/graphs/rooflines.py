"""A forecaster by data sheets alone, for what is tested around one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tune_farm.sharding.compose import roofline_seconds
from tune_farm.tuner.predictor.forecast.chip import Chip
from tune_farm.tuner.predictor.forecast.kernels import Forecasts, Kernel


class Roofline:
    """Every kernel at the peaks, give or take a fifth."""

    def predict(self, kernels: Sequence[Kernel], chip: Chip) -> Forecasts:
        """Seconds of each kernel on a chip."""
        seconds = np.array([roofline_seconds(kernel, chip) for kernel in kernels])
        return Forecasts(
            device_seconds=seconds,
            low_seconds=0.8 * seconds,
            high_seconds=1.2 * seconds,
            is_outside=np.zeros(len(kernels), dtype=bool),
        )
