"""A few kernels measured on the GPU itself correct its forecast: one factor for each class.

A law's error on a GPU that it has never seen is mostly one for all kernels of a class, and about as
large as its interval says: that is what is believed before a kernel was measured (a normal
deviation of logarithms). The median of what was measured moves it, the more kernels there are and
the closer they agree (the normal model's posterior mean; Gelman et al., Bayesian Data Analysis,
2.5). What the kernels scatter about it stays uncertain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.forecast.chip import Chip
from tune_farm.tuner.predictor.forecast.kernels import Forecaster, Forecasts, Kernel, KernelKind
from tune_farm.tuner.predictor.forecast.measured import MeasuredKernel

Floats = NDArray[np.float64]

#: Deviations of a normal distribution on either side that hold nine of ten.
_NINE_OF_TEN = 1.645
#: A median of n normal values scatters as a mean of fewer: by this more (pi / 2).
_OF_MEDIAN = np.pi / 2
#: No two runs of a kernel agree better than that, relative.
_LEAST_SCATTER = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What calibration does for a class, each measured kernel left out of its own correction."""

    kind: KernelKind
    kernels: int
    factor: float  # measured over forecast
    error_before: float  # mean of |forecast - measured| / measured
    error_after: float | None  # None: a single kernel can't be left out


@dataclass(frozen=True, slots=True, kw_only=True)
class _Correction:
    log_factor: float
    deviation: float  # of a kernel's logarithm, after the correction


class CalibratedForecaster:
    """Corrects another's forecasts for one GPU; implements `Forecaster`."""

    def __init__(self, base: Forecaster, measured: Sequence[MeasuredKernel], chip: Chip) -> None:
        """Compare.

        Args:
            base: whose forecasts are corrected.
            measured: on the chip; those that `base` has no law for are not used.
            chip: all of the GPU that they were measured on.
        """
        self._base = base
        told = base.predict([each.kernel for each in measured], chip)
        seconds = np.array([each.seconds for each in measured])
        logs = np.log(seconds / told.device_seconds)
        prior = np.log(told.high_seconds / told.low_seconds) / (2 * _NINE_OF_TEN)
        kinds = np.array([each.kernel.kind.value for each in measured])
        self._corrections: dict[KernelKind, _Correction] = {}
        gains = []
        for kind in dict.fromkeys(each.kernel.kind for each in measured):
            own = (kinds == kind.value) & ~told.is_outside
            if own.any():
                believed = float(np.median(prior[own]))
                self._corrections[kind] = _correction(logs[own], believed)
                gains.append(_gain(kind, logs[own], believed))
        self.gains = tuple(gains)  #: of the classes that were measured

    def predict(self, kernels: Sequence[Kernel], chip: Chip) -> Forecasts:
        """Seconds of each kernel on a chip: that GPU, or a share of it."""
        told = self._base.predict(kernels, chip)
        factors, widths = np.ones(len(kernels)), np.zeros(len(kernels))
        for index, kernel in enumerate(kernels):
            correction = self._corrections.get(kernel.kind)
            if correction is not None and not told.is_outside[index]:
                factors[index] = np.exp(correction.log_factor)
                widths[index] = np.exp(_NINE_OF_TEN * correction.deviation)
        seconds = told.device_seconds * factors
        is_corrected = widths > 0
        return Forecasts(
            device_seconds=seconds,
            low_seconds=np.divide(seconds, widths, out=told.low_seconds.copy(), where=is_corrected),
            high_seconds=np.where(is_corrected, seconds * widths, told.high_seconds),
            is_outside=told.is_outside,
        )


def _correction(logs: Floats, believed: float) -> _Correction:
    """Of a class.

    Args:
        logs: of measured over forecast, (kernels,).
        believed: deviation of a kernel's logarithm before anything was measured.
    """
    scatter = believed if len(logs) == 1 else float(np.std(logs, ddof=1))
    scatter = max(scatter, _LEAST_SCATTER)
    weight = believed**2 / (believed**2 + _OF_MEDIAN * scatter**2 / len(logs))
    left = (1 - weight) * believed**2
    return _Correction(
        log_factor=weight * float(np.median(logs)), deviation=float(np.sqrt(scatter**2 + left))
    )


def _gain(kind: KernelKind, logs: Floats, believed: float) -> Gain:
    after = None
    if len(logs) > 1:
        others = [np.delete(logs, index) for index in range(len(logs))]
        corrected = [_correction(each, believed).log_factor for each in others]
        after = float(np.abs(np.expm1(np.array(corrected) - logs)).mean())
    return Gain(
        kind=kind,
        kernels=len(logs),
        factor=float(np.exp(_correction(logs, believed).log_factor)),
        error_before=float(np.abs(np.expm1(-logs)).mean()),
        error_after=after,
    )
