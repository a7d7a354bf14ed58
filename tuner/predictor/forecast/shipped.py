"""Forecasts by the laws and the numbers that ship with the package; implements `Forecaster`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.forecast.chip import Chip
from tune_farm.tuner.predictor.forecast.kernels import Forecasts, Kernel, KernelKind
from tune_farm.tuner.predictor.forecast.laws import (
    PRODUCTS,
    is_power_bound,
    law_seconds,
    roof_seconds,
    sustained_roof_seconds,
)
from tune_farm.tuner.predictor.forecast.sizes import Sizes, sizes_of
from tune_farm.tuner.predictor.forecast.trained import (
    TRAINED_KINDS,
    ClassFit,
    Host,
    Trained,
    trained,
)

Floats = NDArray[np.float64]

#: Times the largest that was seen in training, up to which a law is asked at all: more rows are
#: more rounds of the same, longer sums and rows may be other kernels.
_REACH = {"batch": 32.0, "rows": 32.0, "depth": 8.0, "columns": 8.0, "moved_bytes": 64.0}
#: Of the interval where no law is asked: from the physical limit to so many sustained rooflines.
_OUTSIDE_HIGH = 4.0
#: The intervals of classes without rows, over those of the class whose law they borrow.
_BORROWED_WIDER = 1.5
_FULL = "float32"
_HALVES = ("float16", "bfloat16")
#: Products whose results go to so many arrays at a time: what a cache holds.
_CHUNK = 512


class ShippedForecaster:
    """Predicts kernels by class, all of a class at once."""

    def __init__(self, model: Trained | None = None, *, waits: bool = False) -> None:
        """Take the numbers.

        Args:
            model: None: those that ship.
            waits: whether the GPU rests after each kernel, as in rows whose calls are waited for
                one by one: a board that its power holds back is faster then.

        Raises:
            EnvironmentUnusableError: their file is missing or damaged.
        """
        self._model = trained() if model is None else model
        self._rest: Mapping[str, float] = {} if waits else {"rest_seconds": 0.0}

    def predict(self, kernels: Sequence[Kernel], chip: Chip) -> Forecasts:
        """Seconds of each kernel on a chip, without what a launch costs on the host."""
        seconds, low, high = (np.zeros(len(kernels)) for _ in range(3))
        outside = np.zeros(len(kernels), dtype=bool)
        groups: dict[tuple[KernelKind, str], list[int]] = {}
        for index, kernel in enumerate(kernels):
            groups.setdefault((kernel.kind, kernel.dtype), []).append(index)
        for (kind, dtype), members in groups.items():
            for start in range(0, len(members), _CHUNK):
                part = members[start : start + _CHUNK]
                which, sizes = np.array(part), sizes_of([kernels[index] for index in part])
                found = self._of_a_class(kind, dtype, sizes, chip)
                seconds[which], low[which], high[which], outside[which] = found
        return Forecasts(
            device_seconds=seconds, low_seconds=low, high_seconds=high, is_outside=outside
        )

    def host(self, kind: KernelKind, chip: Chip) -> Host:
        """What a synchronous call of a kernel costs the host in rows that events timed.

        Not a part of `predict`: a model's launches are not waited for. Of a GPU without rows they
        are the smallest of all hosts: newer GPUs stand in newer ones.
        """
        hosts = self._model.hosts[_lender(kind)]
        least = Host(
            call_seconds=min(each.call_seconds for each in hosts.values()),
            gap_seconds=min(each.gap_seconds for each in hosts.values()),
        )
        return hosts.get(chip.name, least)

    def _of_a_class(
        self, kind: KernelKind, dtype: str, sizes: Sizes, chip: Chip
    ) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
        """Seconds, their interval, and whether it is a roofline that tells them; (kernels,)."""
        fit = self._model.classes[_lender(kind)]
        seconds = law_seconds(kind, sizes, chip, {**fit.numbers, **self._rest})
        is_bound = is_power_bound(kind, chip, fit.numbers)
        spread = fit.power_bound_spread if is_bound else fit.spread
        spread *= 1.0 if kind in TRAINED_KINDS else _BORROWED_WIDER
        limit = roof_seconds(kind, sizes, chip, is_half=dtype in _HALVES)
        is_outside = _is_outside(sizes, fit)
        if kind in PRODUCTS and dtype != _FULL:
            is_outside = np.ones(len(sizes), dtype=bool)
        roof = sustained_roof_seconds(kind, sizes, chip, fit.numbers, is_half=dtype in _HALVES)
        told = np.where(is_outside, roof, seconds)
        low = np.where(is_outside, np.minimum(limit, roof), seconds / spread)
        high = np.where(is_outside, roof * _OUTSIDE_HIGH, seconds * spread)
        return told, low, high, is_outside


def _lender(kind: KernelKind) -> KernelKind:
    """The class whose numbers serve a class."""
    return kind if kind in TRAINED_KINDS else KernelKind.ELEMENTWISE


def _is_outside(sizes: Sizes, fit: ClassFit) -> NDArray[np.bool_]:
    outside = np.zeros(len(sizes), dtype=bool)
    for name, most in fit.most.items():
        outside |= getattr(sizes, name) > most * _REACH[name]
    return outside
