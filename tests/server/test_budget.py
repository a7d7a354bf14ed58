"""Trials go where the model gains: more weight never loses, what stopped gaining gives way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_farm.server.budget import (
    BudgetPolicy,
    TaskProgress,
    gain,
    next_task,
)

seconds = st.floats(min_value=1e-7, max_value=10.0)


@st.composite
def progresses(draw: st.DrawFn, task_id: str = "task") -> TaskProgress:
    """Draw a task at some moment of its search."""
    history = tuple(sorted(draw(st.lists(seconds, max_size=50)), reverse=True))
    return TaskProgress(
        task_id=task_id,
        weight=draw(st.integers(1, 100)),
        baseline_seconds=draw(st.none() | seconds),
        best_seconds=history[-1] if history else None,
        history=history,
        trials=len(history) + draw(st.integers(0, 5)),
        exhausted=draw(st.booleans()),
        failed=draw(st.booleans()),
    )


@st.composite
def farms(draw: st.DrawFn) -> list[TaskProgress]:
    """Draw the tasks of a model."""
    return [draw(progresses(f"task{number}")) for number in range(draw(st.integers(0, 6)))]


def make(task_id: str = "task", **changes: object) -> TaskProgress:
    """Return a task that went from 2 to 1 seconds in 10 trials."""
    task = TaskProgress(
        task_id=task_id,
        weight=1,
        baseline_seconds=2.0,
        best_seconds=1.0,
        history=(2.0,) * 5 + (1.0,) * 6,
        trials=10,
        exhausted=False,
        failed=False,
    )
    return replace(task, **changes)  # type: ignore[arg-type]


@settings(deadline=None)
@given(task=progresses(), more=st.integers(1, 100))
def test_more_weight_is_never_less_gain(task: TaskProgress, more: int) -> None:
    assert 0.0 <= gain(task) <= gain(replace(task, weight=task.weight + more))


@settings(deadline=None)
@given(task=progresses(), more=st.integers(1, 500))
def test_task_that_stopped_gaining_decays(task: TaskProgress, more: int) -> None:
    stuck = task.history + task.history[-1:] * more
    later = replace(task, history=stuck, trials=task.trials + more)
    if task.seconds is None:
        assert gain(later) == 0.0
    elif more > BudgetPolicy().window_trials:
        # Nothing is left of the look back, and the look forward fell in proportion.
        expected = 0.8 * task.weight * task.seconds / (task.trials + more)
        assert gain(later) == pytest.approx(expected)


def test_stuck_task_gives_way_to_a_lighter_one_that_was_hardly_tried() -> None:
    stuck = make("stuck", weight=10, history=(1.0,) * 1001, trials=1000)
    fresh = make("fresh", history=(1.0,) * 11, trials=10)
    assert next_task([stuck, fresh], {"stuck", "fresh"}, {"stuck": 9.0, "fresh": 1.0}) == "fresh"


def test_recent_gain_counts() -> None:
    gaining = make(history=(2.0,) * 10 + (1.0,))
    resting = make(history=(1.0,) * 11)
    assert gain(gaining) == pytest.approx(0.2 * 0.1 + 0.8 * 0.1)
    assert gain(resting) == pytest.approx(0.8 * 0.1)


def test_gain_counts_from_the_faster_of_best_and_baseline() -> None:
    worse = make(best_seconds=9.0, baseline_seconds=1.0, history=(9.0,) * 10)
    assert gain(worse) == pytest.approx(0.8 * 0.1)


def equal(ids: Iterable[str]) -> dict[str, float]:
    return dict.fromkeys(ids, 1.0)


@settings(deadline=None)
@given(tasks=farms(), data=st.data())
def test_closed_task_is_never_chosen(tasks: list[TaskProgress], data: st.DataObject) -> None:
    ids = [task.task_id for task in tasks]
    candidates = data.draw(st.sets(st.sampled_from(ids))) if ids else set[str]()
    chosen = next_task(tasks, candidates, equal(ids))
    open_ids = {task.task_id for task in tasks if not (task.exhausted or task.failed)}
    if chosen is None:
        assert not open_ids & candidates
    else:
        assert chosen in open_ids & candidates


@settings(deadline=None)
@given(tasks=farms(), data=st.data())
def test_choice_does_not_depend_on_the_order(
    tasks: list[TaskProgress], data: st.DataObject
) -> None:
    ids = {task.task_id for task in tasks}
    shuffled = data.draw(st.permutations(tasks))
    costs = equal(ids)
    chosen = next_task(tasks, ids, costs)
    assert chosen == next_task(shuffled, ids, costs) == next_task(tasks, sorted(ids), costs)


def test_untried_tasks_come_first_the_costliest_before() -> None:
    untried = {"best_seconds": None, "history": (), "trials": 0}
    tasks = [
        make("tried", weight=1000),
        make("cheap", baseline_seconds=0.1, **untried),
        make("costly", baseline_seconds=0.1, weight=9, **untried),
        make("unknown", baseline_seconds=None, **untried),
    ]
    order = []
    costs = {"tried": 99.0, "cheap": 1.0, "costly": 9.0, "unknown": 0.5}
    while (chosen := next_task(tasks, {task.task_id for task in tasks}, costs)) is not None:
        order.append(chosen)
        tasks = [task for task in tasks if task.task_id != chosen]
    assert order == ["costly", "cheap", "unknown", "tried"]


def test_every_task_is_served_in_the_end() -> None:
    tasks = {name: make(name, weight=weight) for name, weight in (("a", 100), ("b", 1))}
    for _ in range(200):
        chosen = next_task(tasks.values(), tasks, equal(tasks))
        assert chosen is not None
        task = tasks[chosen]
        history = (*task.history, task.history[-1])
        tasks[chosen] = replace(task, trials=task.trials + 16, history=history)
    assert tasks["b"].trials > 10
    assert tasks["a"].trials > tasks["b"].trials
