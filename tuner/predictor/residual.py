"""What the law gets wrong, learned from measurements as they come in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Below it a tree ensemble fits noise; the law stands alone.
_LEAST_ROWS = 12
_ROUNDS = 60
_DEPTH = 4


class Residual:
    """Boosted trees on log2(measured / law), shared by all tasks of a client.

    Tasks differ by an offset that features do not explain; it is taken out before the fit and put
    back for the task, so that one task's rows teach the order of another's drafts.
    """

    def __init__(self, *, threads: int) -> None:
        self._threads = threads
        self._features: list[NDArray[np.float32]] = []
        self._errors: list[float] = []  #: log2(measured / law), one a row
        self._tasks: list[str] = []
        self._offsets: dict[str, float] = {}
        self._model: Any = None
        self._fitted = 0  #: rows at the last fit

    def add(self, task_id: str, features: NDArray[np.float32], law: float, measured: float) -> None:
        """Take in one measurement.

        Args:
            task_id: its task.
            features: (features,) float32.
            law: predicted by the law, seconds.
            measured: seconds.
        """
        self._features.append(features)
        self._errors.append(float(np.log2(measured / law)))
        self._tasks.append(task_id)

    def factor(self, task_id: str, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """What the law is to be multiplied with, (drafts,) float64."""
        self._fit()
        offset = self._offsets.get(task_id, self._median())
        if self._model is None:
            return np.full(len(features), 2.0**offset)
        import xgboost

        learned = self._model.predict(xgboost.DMatrix(features, nthread=self._threads))
        return np.asarray(np.exp2(learned.astype(np.float64) + offset))

    def _median(self) -> float:
        return float(np.median(self._errors)) if self._errors else 0.0

    def _fit(self) -> None:
        if len(self._errors) == self._fitted:
            return
        self._fitted = len(self._errors)
        errors, tasks = np.array(self._errors), np.array(self._tasks)
        self._offsets = {str(t): float(np.median(errors[tasks == t])) for t in np.unique(tasks)}
        if self._fitted < _LEAST_ROWS:
            return
        import xgboost

        target = errors - np.array([self._offsets[t] for t in self._tasks])
        self._model = xgboost.train(
            {
                "max_depth": _DEPTH,
                "eta": 0.15,
                "min_child_weight": 2,
                "subsample": 0.8,
                "lambda": 2.0,
                "nthread": self._threads,
                "seed": 0,
                "verbosity": 0,
            },
            xgboost.DMatrix(np.stack(self._features), target, nthread=self._threads),
            num_boost_round=_ROUNDS,
        )
