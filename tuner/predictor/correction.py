"""What the law gets wrong about one operator, learned from its own measurements alone.

`Residual` looks at tiles, so that tasks teach each other. This looks at the decisions themselves.
They mean nothing to another operator, but there are few of them and they are free of what the law
believes: where the law is wrong, so are the features that it multiplies, and trees that split on
these push whatever it holds for good away from the top.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.boosted import BoostedTrees
from tune_farm.tuner.predictor.gaussian_process import GaussianProcess, fit_process

Floats = NDArray[np.float64]

#: Below it the law stands alone.
_LEAST_ROWS = 12
#: A process takes time with the cube of its rows: the latest.
_MOST_ROWS = 256


class Correction:
    """The mean of a Gaussian process and of boosted trees on log2(measured / law).

    The process finds slopes from few rows; trees find what is on or off.
    """

    def __init__(self, decisions: Floats, *, threads: int) -> None:
        """Take the decisions that features are scaled by, (drafts, decisions)."""
        self._reference = decisions
        self._threads = threads
        self._rows: list[Floats] = []
        self._errors: list[float] = []  #: log2(measured / law), one a row
        self._fitted = 0  #: rows at the last fit
        self._process: GaussianProcess | None = None
        self._trees: BoostedTrees | None = None

    @property
    def is_ready(self) -> bool:
        """Whether there are enough measurements to say more than a scale."""
        return len(self._errors) >= _LEAST_ROWS

    def add(self, decisions: Floats, law: float, measured: float) -> None:
        """Take in one measurement: (decisions,), and seconds by the law and measured."""
        self._rows.append(decisions)
        self._errors.append(float(np.log2(measured / law)))

    def factor(self, decisions: Floats) -> Floats:
        """What the law is to be multiplied with, (drafts,)."""
        self._fit()
        if self._process is None or self._trees is None:
            return np.full(len(decisions), 2.0 ** (np.median(self._errors or [0.0])))
        learned = self._trees.predict(decisions)
        return np.asarray(np.exp2((self._process.mean_at(decisions) + learned) / 2))

    def doubt(self, decisions: Floats) -> Floats:
        """Standard deviation of log2 of the factor, (drafts,); 0 before anything is learned."""
        self._fit()
        if self._process is None:
            return np.zeros(len(decisions))
        return self._process.deviation_at(decisions)

    def _fit(self) -> None:
        if len(self._errors) == self._fitted or not self.is_ready:
            return
        self._fitted = len(self._errors)
        rows, errors = np.stack(self._rows), np.array(self._errors)
        self._process = fit_process(rows[-_MOST_ROWS:], errors[-_MOST_ROWS:], self._reference)
        base = float(np.median(errors))
        self._trees = BoostedTrees(rows, errors, threads=self._threads, base=base)
