"""Numbers of a law from measured rows: bounded, robust least squares on the logarithm of times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from benchmarks.forecast.data import Rows
from tune_farm.tuner.predictor.forecast.catalogue import chip_of
from tune_farm.tuner.predictor.forecast.chip import Chip
from tune_farm.tuner.predictor.forecast.kernels import KernelKind
from tune_farm.tuner.predictor.forecast.trained import Host

Floats = NDArray[np.float64]
#: Seconds on the device, (rows,), of rows of one GPU.
RowLaw = Callable[[Rows, Chip, Mapping[str, float]], Floats]

#: Errors beyond it count by their size, not by its square.
_ROBUST = 0.1
#: What moving a number by a factor of e from where it began costs: as much as this error in every
#: row. It keeps numbers in place that some GPUs say nothing of.
_PRIOR = 0.005
_MOST_EVALUATIONS = 80
#: Of a host: seconds of a call before the kernel begins, and of recording the event behind it.
_CALL, _GAP = (20e-6, 4e-6, 80e-6), (8e-6, 1e-6, 40e-6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A number that is fitted, on a logarithmic scale."""

    name: str
    start: float
    low: float
    high: float
    kinds: tuple[KernelKind, ...] = ()  # whose it is; empty: all kinds of the fit share it


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a fit ends with."""

    numbers: Mapping[KernelKind, Mapping[str, float]]
    hosts: Mapping[KernelKind, Mapping[str, Host]]
    loss: float


def sample(rows: Rows, gpus: Sequence[str], count: int, seed: int) -> Rows:
    """At most so many rows of each GPU, drawn so that short and long kernels weigh alike.

    Most rows of the data are short; models spend their time in long ones.
    """
    generator = np.random.default_rng(seed)
    drawn = []
    for gpu in gpus:
        which = np.flatnonzero(rows.gpus == gpu)
        if not len(which):
            continue
        bins = np.floor(2 * np.log2(rows.seconds[which]))
        _, inverse, counts = np.unique(bins, return_inverse=True, return_counts=True)
        weights = 1.0 / counts[inverse]
        size = min(count, len(which))
        drawn.append(generator.choice(which, size, replace=False, p=weights / weights.sum()))
    return rows.take(np.sort(np.concatenate(drawn)))


def call_seconds(device: Floats, host: Host) -> Floats:
    """What events time of synchronous calls."""
    return host.call_seconds + np.maximum(device, host.gap_seconds)


class Fit:
    """One or more classes that share numbers."""

    def __init__(
        self,
        rows: Sequence[Rows],
        law: RowLaw,
        parameters: Sequence[Parameter],
        fixed: Mapping[str, float],
    ) -> None:
        """Take rows of GPUs of the catalogue, each class once."""
        self._law = law
        self._parameters = parameters
        self._fixed = fixed
        self._kinds = [each.kind for each in rows]
        self._parts = [
            (each.kind, gpu, chip_of(gpu), each.of(gpu))
            for each in rows
            for gpu in sorted(set(each.gpus.tolist()))
        ]

    def run(self) -> Found:
        """Fit."""
        hosts = [bounds for _ in self._parts for bounds in (_CALL, _GAP)]
        table = np.array([(p.start, p.low, p.high) for p in self._parameters] + hosts)
        start, low, high = np.log(table).T
        solved = least_squares(
            self._errors,
            start,
            jac=self._slopes,
            bounds=(low, high),
            loss="soft_l1",
            f_scale=_ROBUST,
            x_scale=np.maximum(high - low, 1e-3),
            max_nfev=_MOST_EVALUATIONS,
            args=(start,),
        )
        numbers = {kind: self._numbers(kind, solved.x) for kind in self._kinds}
        found: dict[KernelKind, dict[str, Host]] = {kind: {} for kind in self._kinds}
        for (kind, gpu, _, _), host in zip(self._parts, self._hosts(solved.x), strict=True):
            found[kind][gpu] = host
        return Found(numbers=numbers, hosts=found, loss=float(solved.cost))

    def _numbers(self, kind: KernelKind, x: Floats) -> dict[str, float]:
        own = zip(self._parameters, np.exp(x), strict=False)
        return dict(self._fixed) | {
            p.name: float(value) for p, value in own if not p.kinds or kind in p.kinds
        }

    def _hosts(self, x: Floats) -> Iterator[Host]:
        values = np.exp(x[len(self._parameters) :]).reshape(-1, 2)
        for call, gap in values:
            yield Host(call_seconds=float(call), gap_seconds=float(gap))

    def _devices(self, x: Floats) -> list[Floats]:
        return [
            self._law(rows, chip, self._numbers(kind, x)) for kind, _, chip, rows in self._parts
        ]

    def _timed(self, devices: Sequence[Floats], x: Floats, start: Floats) -> Floats:
        errors = [
            np.log(call_seconds(device, host) / part[3].seconds)
            for device, host, part in zip(devices, self._hosts(x), self._parts, strict=True)
        ]
        count = sum(map(len, errors))
        return np.concatenate([*errors, _PRIOR * np.sqrt(count) * (x - start)])

    def _errors(self, x: Floats, start: Floats) -> Floats:
        return self._timed(self._devices(x), x, start)

    def _slopes(self, x: Floats, start: Floats) -> Floats:
        """Finite differences; the law is not asked again for the numbers of hosts."""
        step = 1e-4
        devices = self._devices(x)
        base = self._timed(devices, x, start)
        columns = []
        for index in range(len(x)):
            moved = x.copy()
            moved[index] += step
            is_law = index < len(self._parameters)
            there = self._timed(self._devices(moved) if is_law else devices, moved, start)
            columns.append((there - base) / step)
        return np.stack(columns, axis=1)
