"""Boosted trees that are fitted to a few dozen rows, and again after each batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ROUNDS = 60
_DEPTH = 4


class BoostedTrees:
    """A fitted regression; the same rows give the same trees."""

    def __init__(self, features: NDArray[np.float32], target: Floats, *, threads: int) -> None:
        """Fit.

        Args:
            features: (rows, features) float32.
            target: (rows,) float64, around zero.
            threads: that fitting and predicting may use.
        """
        import xgboost

        self._threads = threads
        self._model: Any = xgboost.train(
            {
                "max_depth": _DEPTH,
                "eta": 0.15,
                "min_child_weight": 2,
                "subsample": 0.8,
                "lambda": 2.0,
                "nthread": threads,
                "seed": 0,
                "verbosity": 0,
            },
            xgboost.DMatrix(features, target, nthread=threads),
            num_boost_round=_ROUNDS,
        )

    def predict(self, features: NDArray[np.float32]) -> Floats:
        """(rows,) float64 for (rows, features) float32."""
        import xgboost

        found = self._model.predict(xgboost.DMatrix(features, nthread=self._threads))
        return np.asarray(found, dtype=np.float64)
