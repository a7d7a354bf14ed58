"""Regression from a few dozen rows: a Gaussian process.

Rasmussen and Williams, Gaussian Processes for Machine Learning (2006): algorithm 2.1, and a kernel
whose length, and whose parts of linear and of noise, are those of the greatest marginal likelihood
(section 5.4.1). Few candidates of each stand in for gradients: with so few rows a finer choice
fits noise.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Lengths in units of the mean distance between rows.
_LENGTHS = (0.35, 0.5, 0.7, 1.0, 1.5, 2.5)
#: Variance of the noise over that of the values.
_NOISES = (0.003, 0.01, 0.03, 0.1, 0.3)
#: Variance of the linear part over that of the smooth part.
_LINEARS = (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianProcess:
    """What is expected at any row, given values at a few."""

    rows: Floats  # (known, features), each feature scaled to variance 1
    weights: Floats  # (known,)
    factor: Floats  # (known, known) lower Cholesky factor of the rows' kernel matrix
    center: Floats  # (features,)
    scale: Floats  # (features,)
    mean: float  # of the values
    variance: float  # of the smooth part
    length: float
    linear: float

    def mean_at(self, rows: Floats) -> Floats:
        """The expected values at rows, (rows,) float64."""
        scaled = (rows - self.center) / self.scale
        between = _kernel(scaled, self.rows, self.length, self.linear)
        return np.asarray(self.mean + between @ self.weights)

    def deviation_at(self, rows: Floats) -> Floats:
        """Standard deviation of the values at rows, the noise left out: (rows,) float64."""
        from scipy.linalg import solve_triangular

        scaled = (rows - self.center) / self.scale
        between = _kernel(scaled, self.rows, self.length, self.linear)
        explained = solve_triangular(self.factor, between.T, lower=True, check_finite=False)
        own = 1.0 + self.linear * (scaled**2).mean(axis=1)
        left = np.maximum(own - (explained**2).sum(axis=0), 0.0)
        return np.asarray(np.sqrt(left * self.variance))


def fit_process(rows: Floats, values: Floats, reference: Floats) -> GaussianProcess:
    """Fit a process.

    Args:
        rows: where values are known, (known, features).
        values: (known,).
        reference: rows that features are scaled by, (many, features).
    """
    center, spread = reference.mean(axis=0), reference.std(axis=0)
    scale = np.where(spread > 1e-9, spread, 1.0)
    scaled = (rows - center) / scale
    typical = max(float(np.sqrt(np.mean(_squares(scaled, scaled)))), 1e-9)
    likeliest, best = -np.inf, None
    for length, linear in itertools.product(_LENGTHS, _LINEARS):
        kernel = _kernel(scaled, scaled, length * typical, linear)
        for noise in _NOISES:
            factor = np.asarray(np.linalg.cholesky(kernel + noise * np.eye(len(rows))))
            solved = np.linalg.solve(factor, values - values.mean())
            variance = max(float(solved @ solved) / len(rows), 1e-12)  # the likeliest
            likelihood = -len(rows) / 2 * np.log(variance) - np.log(np.diag(factor)).sum()
            if likelihood > likeliest:
                likeliest = likelihood
                best = (length * typical, linear, variance, factor, solved)
    assert best is not None, "no finite likelihood: a value is not finite"
    length, linear, variance, factor, solved = best
    return GaussianProcess(
        rows=scaled,
        weights=np.asarray(np.linalg.solve(factor.T, solved)),
        factor=factor,
        center=center,
        scale=scale,
        mean=float(values.mean()),
        variance=variance,
        length=length,
        linear=linear,
    )


def _kernel(here: Floats, there: Floats, length: float, linear: float) -> Floats:
    """A smooth part (Matern 5/2) and a linear one: (here, there)."""
    distance = np.sqrt(5.0 * _squares(here, there)) / length
    smooth = (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)
    return np.asarray(smooth + linear * (here @ there.T) / here.shape[1])


def _squares(here: Floats, there: Floats) -> Floats:
    """Squared distances: (here, there)."""
    across = (here**2).sum(axis=1)[:, None] + (there**2).sum(axis=1)[None] - 2.0 * here @ there.T
    return np.asarray(np.maximum(across, 0.0))
