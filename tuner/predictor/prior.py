"""What earlier runs taught about the law's errors, and how far that is to be believed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.boosted import BoostedTrees
from tune_farm.tuner.predictor.lessons import Chapter

Floats = NDArray[np.float64]

#: Rows of a task at one place, below which its scale is a guess.
_LEAST_OF_TASK = 4
#: Rows, and tasks, below which nothing is carried over.
_LEAST_ROWS = 32
_LEAST_TASKS = 3
#: Parts at most that tasks are divided into, to see how well each is told by the others.
_FOLDS = 4
#: Rows of a run's own that outweigh what memory says of itself. On recorded operators of ResNet-50,
#: each left out in turn, 4 was better than 8, with a memory that is right and with one inverted.
_OWN_ROWS = 4.0


class Prior:
    """Trees on the errors of earlier runs, each task's scale at each place taken out.

    They are believed to the part by which they are borne out: at first by tasks that were left out
    of the fit, then more and more by a run's own rows. That part is the slope of a regression
    through the origin, held to 0 to 1: what contradicts the run's own rows counts nothing.
    """

    def __init__(self, chapters: Iterable[Chapter], *, threads: int) -> None:
        features, errors, groups = _rows(chapters)
        self._trees: BoostedTrees | None = None
        self._spread = 0.0  #: mean square of what is told of tasks that were left out
        self._slope = 0.0  #: of their errors over it
        self._width = features.shape[-1]  #: features of a row
        tasks = len(np.unique(groups))
        if len(errors) < _LEAST_ROWS or tasks < _LEAST_TASKS:
            return
        told = np.empty(len(errors))
        folds = min(tasks, _FOLDS)
        for fold in range(folds):
            out = groups % folds == fold
            told[out] = BoostedTrees(features[~out], errors[~out], threads=threads).predict(
                features[out]
            )
        told = centred(told, groups)
        self._spread = float(np.mean(told**2))
        if self._spread > 0.0:
            self._slope = float(np.mean(told * errors)) / self._spread
            self._trees = BoostedTrees(features, errors, threads=threads)

    @property
    def says_anything(self) -> bool:
        """Whether there was enough to learn from."""
        return self._trees is not None

    def told(self, features: NDArray[np.float32]) -> Floats:
        """log2 of the law's errors, up to a task's scale, (drafts,); 0 if nothing was learned."""
        if self._trees is None or features.shape[1] != self._width:
            return np.zeros(len(features))
        return self._trees.predict(features)

    def belief(self, told: Floats, errors: Floats) -> float:
        """How far to believe it, 0 to 1.

        Args:
            told: of the run's own rows, each task's median taken out, (rows,).
            errors: log2(measured / law) of the same rows, likewise.
        """
        weight = _OWN_ROWS * self._spread
        total = weight + float(np.sum(told**2))
        if total == 0.0:
            return 0.0
        slope = (weight * self._slope + float(np.sum(told * errors))) / total
        return min(1.0, max(0.0, slope))


def centred(values: Floats, groups: NDArray[np.int64] | NDArray[np.str_]) -> Floats:
    """Values less the median of their group, (rows,)."""
    found = values.copy()
    for group in np.unique(groups):
        found[groups == group] -= np.median(values[groups == group])
    return found


def _rows(chapters: Iterable[Chapter]) -> tuple[NDArray[np.float32], Floats, NDArray[np.int64]]:
    """Features, errors around each task's scale, and tasks as numbers, by first appearance."""
    by_task: dict[tuple[str, str], list[tuple[Sequence[float], float]]] = {}
    for chapter in chapters:
        for lesson in chapter.lessons:
            rows = by_task.setdefault((lesson.task_id, chapter.place), [])
            rows.append((lesson.features, lesson.log2_error))
    # One number a task, not a task at a place: what is left out must be unknown everywhere.
    enough = {key: rows for key, rows in by_task.items() if len(rows) >= _LEAST_OF_TASK}
    tasks = {task_id: number for number, task_id in enumerate(dict.fromkeys(t for t, _ in enough))}
    features, errors, groups = [], [], []
    for (task_id, _), rows in enough.items():
        scale = float(np.median([error for _, error in rows]))
        features += [row for row, _ in rows]
        errors += [error - scale for _, error in rows]
        groups += [tasks[task_id]] * len(rows)
    return (
        np.array(features, dtype=np.float32),
        np.array(errors, dtype=np.float64),
        np.array(groups, dtype=np.int64),
    )
