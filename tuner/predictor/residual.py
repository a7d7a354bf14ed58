"""What the law gets wrong, learned from measurements as they come in."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.boosted import BoostedTrees
from tune_farm.tuner.predictor.lessons import Chapter, Lesson
from tune_farm.tuner.predictor.prior import Prior, centred

Floats = NDArray[np.float64]

#: Below it a tree ensemble fits noise; the law, and what earlier runs taught, stand alone.
_LEAST_ROWS = 12


class Residual:
    """Boosted trees on log2(measured / law), shared by all tasks of a client.

    Tasks differ by an offset that features do not explain; it is taken out before the fit and put
    back for the task, so that one task's rows teach the order of another's drafts. Where earlier
    runs taught something, the trees learn what that leaves over.
    """

    def __init__(self, *, threads: int, memory: Iterable[Chapter] = ()) -> None:
        """Begin without rows of this run.

        Args:
            threads: that learning may use.
            memory: what earlier runs learned.
        """
        self._threads = threads
        self._prior = Prior(memory, threads=threads)
        self._lessons: list[Lesson] = []
        self._offsets: dict[str, float] = {}
        self._belief = self._prior.belief(np.zeros(0), np.zeros(0))  #: in the prior, 0 to 1
        self._trees: BoostedTrees | None = None
        self._fitted = 0  #: rows at the last fit
        self._taken = 0  #: rows that `take` gave away

    def add(self, task_id: str, features: NDArray[np.float32], law: float, measured: float) -> None:
        """Take in one measurement.

        Args:
            task_id: its task.
            features: (features,) float32.
            law: predicted by the law, seconds.
            measured: seconds.
        """
        row = tuple(float(value) for value in features)
        error = float(np.log2(measured / law))
        self._lessons.append(Lesson(task_id=task_id, features=row, log2_error=error))

    def take(self) -> tuple[Lesson, ...]:
        """What was added since this was last called."""
        new = tuple(self._lessons[self._taken :])
        self._taken = len(self._lessons)
        return new

    def factor(self, task_id: str, features: NDArray[np.float32]) -> Floats:
        """What the law is to be multiplied with, (drafts,) float64."""
        self._fit()
        learned = np.full(len(features), self._offsets.get(task_id, self._median()))
        if self._belief > 0.0:
            learned += self._belief * self._prior.told(features)
        if self._trees is not None:
            learned += self._trees.predict(features)
        return np.asarray(np.exp2(learned))

    def _median(self) -> float:
        errors = [lesson.log2_error for lesson in self._lessons]
        return float(np.median(errors)) if errors else 0.0

    def _fit(self) -> None:
        if len(self._lessons) == self._fitted:
            return
        self._fitted = len(self._lessons)
        features = np.array([lesson.features for lesson in self._lessons], dtype=np.float32)
        errors = np.array([lesson.log2_error for lesson in self._lessons])
        tasks = np.array([lesson.task_id for lesson in self._lessons])
        told = self._prior.told(features)
        self._belief = self._prior.belief(centred(told, tasks), centred(errors, tasks))
        left = errors - self._belief * told
        # The offset is of what is left, so that the prior's own mean is not counted twice.
        self._offsets = {str(t): float(np.median(left[tasks == t])) for t in np.unique(tasks)}
        if self._fitted < _LEAST_ROWS:
            return
        self._trees = BoostedTrees(features, centred(left, tasks), threads=self._threads)
