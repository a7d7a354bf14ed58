"""What earlier runs taught helps before anything is measured, and never stands against it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.tuner.predictor.test_residual import features, truth
from tune_farm.tuner.predictor.lessons import Chapter, Lesson
from tune_farm.tuner.predictor.residual import Residual

UNSEEN = features(300, 99)


def chapter(place: str, *, tasks: int = 6, scale: float = 1.0, sign: float = 1.0) -> Chapter:
    """A run over some tasks, each with a scale of its own."""
    lessons = []
    for task in range(tasks):
        rows = features(20, 100 + task)
        lessons += [
            Lesson(
                task_id=f"{place}-{task}",
                features=tuple(map(float, row)),
                log2_error=float(sign * error + task + np.log2(scale)),
            )
            for row, error in zip(rows, truth(rows), strict=True)
        ]
    return Chapter(place=place, lessons=tuple(lessons))


def noise(place: str, seed: int) -> Chapter:
    """A run whose errors follow from nothing."""
    rng = np.random.default_rng(seed)
    lessons = tuple(
        Lesson(task_id=str(task), features=tuple(row), log2_error=float(rng.normal(0, 3)))
        for task in range(8)
        for row in features(20, 300 + task).tolist()
    )
    return Chapter(place=place, lessons=lessons)


def rank(residual: Residual) -> float:
    """How well the factors of a task order what nobody has seen."""
    return float(stats.spearmanr(residual.factor("new", UNSEEN), truth(UNSEEN)).statistic)


def teach(residual: Residual, count: int, sign: float = 1.0) -> None:
    rows = features(count, 7)
    for row, error in zip(rows, truth(rows), strict=True):
        residual.add("new", row, law=1e-3, measured=1e-3 * 2.0 ** float(sign * error))


@pytest.mark.parametrize("scales", [(1.0,), (1.0, 40.0)], ids=["one share", "two shares"])
def test_an_unknown_task_is_ranked_before_anything_is_measured(scales: tuple[float, ...]) -> None:
    memory = [chapter(f"share {scale}", scale=scale) for scale in scales]

    assert rank(Residual(threads=1, memory=memory)) > 0.8
    assert (Residual(threads=1).factor("new", UNSEEN) == 1.0).all()


def test_the_scale_of_other_tasks_is_not_taken_over() -> None:
    residual = Residual(threads=1, memory=[chapter("fast", scale=1000.0)])

    assert 0.1 < np.median(residual.factor("new", UNSEEN)) < 10.0


def test_own_rows_that_say_the_opposite_win() -> None:
    misled = Residual(threads=1, memory=[chapter("elsewhere", sign=-1.0)])
    alone = Residual(threads=1)
    assert rank(misled) < -0.8  # that is what it was taught

    for residual in (misled, alone):
        teach(residual, 16)

    assert rank(misled) == pytest.approx(rank(alone), abs=0.02)
    assert rank(alone) > 0.8


def test_own_rows_that_agree_keep_what_memory_knows() -> None:
    helped, alone = Residual(threads=1, memory=[chapter("before")]), Residual(threads=1)
    for residual in (helped, alone):
        teach(residual, 6)

    assert (alone.factor("new", UNSEEN) == alone.factor("new", UNSEEN)[0]).all()
    assert rank(helped) > 0.8


def test_what_tasks_did_not_tell_of_each_other_is_not_believed() -> None:
    factors = Residual(threads=1, memory=[noise("x", 1)]).factor("new", UNSEEN)

    told = np.log2(factors)
    assert np.std(told) < 0.3  # of noise with a deviation of 3


@pytest.mark.parametrize(
    "memory",
    [
        [],
        [Chapter(place="x", lessons=())],
        [chapter("x", tasks=1)],  # no other task to be borne out by
        [Chapter(place="x", lessons=chapter("x").lessons[:12])],
    ],
)
def test_too_little_to_learn_from_is_the_law_alone(memory: list[Chapter]) -> None:
    assert (Residual(threads=1, memory=memory).factor("new", UNSEEN) == 1.0).all()


def test_rows_of_other_features_are_of_no_use_and_no_harm() -> None:
    residual = Residual(threads=1, memory=[chapter("x")])

    assert (residual.factor("new", np.ones((5, 9), dtype=np.float32)) == 1.0).all()


def test_what_was_learned_is_taken_once() -> None:
    residual = Residual(threads=1)
    teach(residual, 3)

    first = residual.take()

    assert [lesson.task_id for lesson in first] == ["new"] * 3
    assert first[0].features == tuple(map(float, features(3, 7)[0]))
    assert residual.take() == ()
