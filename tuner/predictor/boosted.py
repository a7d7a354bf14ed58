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

    def __init__(
        self,
        features: NDArray[np.floating[Any]],
        target: Floats,
        *,
        threads: int,
        base: float | None = None,
    ) -> None:
        """Fit.

        Args:
            features: (rows, features).
            target: (rows,) float64.
            threads: that fitting and predicting may use.
            base: where the trees begin; None: at the target's mean.
        """
        import xgboost

        self._threads = threads
        begin = {} if base is None else {"base_score": base}
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
                **begin,
            },
            xgboost.DMatrix(features, target, nthread=threads),
            num_boost_round=_ROUNDS,
        )

    def predict(self, features: NDArray[np.floating[Any]]) -> Floats:
        """(rows,) float64 for (rows, features)."""
        import xgboost

        found = self._model.predict(xgboost.DMatrix(features, nthread=self._threads))
        return np.asarray(found, dtype=np.float64)
