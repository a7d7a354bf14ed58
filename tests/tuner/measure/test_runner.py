"""Right results are timed, wrong ones named, and no library can take more than its child along."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tuner import operators
from tests.tuner.measure import native
from tests.tuner.operators import convolved, export, from_text, loop, softmaxed, task_of
from tests.tuner.waiting import is_gone
from tune_farm.tuner.children.spawn import ChildDiedError
from tune_farm.tuner.interfaces import Artifact, RunReport
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.measure.inputs import make_inputs
from tune_farm.tuner.measure.messages import Timing
from tune_farm.tuner.measure.runner import ChildRunner, RunOptions
from tune_farm.tuner.types import Candidate, Failed, Fault, Measured, Task

CORE = min(os.sched_getaffinity(0))
TIMING = Timing(repeats=3, repeat_seconds=0.001)
TRACE = '[["some schedule"], []]'
DOUBLE = loop("double", "B[v] = A[v] * T.float32(2)")
DOUBLED = from_text(DOUBLE)


def open_runner(folder: Path, **options: Any) -> ChildRunner:
    return ChildRunner(
        cores=(CORE,), scratch=folder, options=RunOptions(timing=TIMING, **options), name="slot"
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any], Path]:
    """Compiles a function once, however many tests ask for it."""
    folder = tmp_path_factory.mktemp("compiled")
    return functools.cache(lambda function: export(function, folder / f"{id(function)}.so"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChildRunner]:
    """For tests whose child survives."""
    runner = open_runner(tmp_path_factory.mktemp("shared"))
    yield runner
    runner.close()


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[ChildRunner]:
    """For tests whose child dies; half a second is an age for the operators here."""
    runner = open_runner(tmp_path, timeout_seconds=2.0)
    yield runner
    runner.close()


def baseline(runner: ChildRunner, task: Task, library: Path) -> RunReport:
    """Have the untuned operator measured, and with it the reference made."""
    runner.select(task, None)
    artifact = Artifact(candidate=untuned(task), path=library, build_seconds=0.0)
    report = runner.run(artifact, incumbent_seconds=None)
    assert isinstance(report.outcome, Measured), report.outcome
    runner.select(task, report.outcome.median_seconds)
    return report


def pid_of(runner: ChildRunner) -> int:
    assert runner._child is not None
    return runner._child.pid


def run(
    runner: ChildRunner, task: Task, library: Path, incumbent_seconds: float | None = None
) -> RunReport:
    candidate = Candidate(task_id=task.id, trace_json=TRACE)
    artifact = Artifact(candidate=candidate, path=library, build_seconds=0.0)
    return runner.run(artifact, incumbent_seconds=incumbent_seconds)


def outputs_of(task: Task, folder: Path) -> np.ndarray[Any, Any]:
    with np.load(folder / f"reference-{task.id}.npz") as stored:
        return np.asarray(stored["arr_0"])


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (operators.matmul(), np.matmul),
        (operators.conv2d(), convolved),
        (operators.softmax(), softmaxed),
        (operators.integer_sum(), lambda data: data.sum(axis=1)),
    ],
    ids=["matmul", "conv2d", "softmax", "integer_sum"],
)
def test_the_untuned_operator_computes_what_numpy_computes(
    shared: ChildRunner,
    tmp_path: Path,
    function: Any,
    expected: Any,
    compiled: Callable[[Any], Path],
) -> None:
    task = task_of(function)

    report = baseline(shared, task, compiled(function))

    assert isinstance(report.outcome, Measured)
    assert len(report.outcome.repeats_seconds) == TIMING.repeats
    assert report.cores_used == (CORE,)
    assert report.stage_seconds.check > 0
    assert report.stage_seconds.measure > 0
    inputs = make_inputs(task.arguments, task_id=task.id, positive=False)
    actual = outputs_of(task, shared._scratch)
    np.testing.assert_allclose(actual, expected(*inputs), rtol=1e-4, atol=1e-5)


def test_an_operator_without_an_answer_is_checked_on_positive_inputs(
    shared: ChildRunner, tmp_path: Path, compiled: Callable[[Any], Path]
) -> None:
    function = operators.square_root()
    task = task_of(function)

    baseline(shared, task, compiled(function))

    (data,) = make_inputs(task.arguments, task_id=task.id, positive=True)
    np.testing.assert_allclose(outputs_of(task, shared._scratch), np.sqrt(data), rtol=1e-6)


def test_a_sum_in_another_order_is_right(
    shared: ChildRunner, tmp_path: Path, compiled: Callable[[Any], Path]
) -> None:
    sizes = {"n": 16, "m": 16, "k": 1024}
    task = task_of(operators.matmul(**sizes))
    baseline(shared, task, compiled(operators.matmul(**sizes)))

    report = run(shared, task, compiled(operators.split_matmul(**sizes)))

    assert isinstance(report.outcome, Measured), report.outcome


def test_a_skipped_reduction_step_is_wrong(
    shared: ChildRunner, tmp_path: Path, compiled: Callable[[Any], Path]
) -> None:
    sizes = {"n": 16, "m": 16, "k": 1024}
    task = task_of(operators.matmul(**sizes))
    baseline(shared, task, compiled(operators.matmul(**sizes)))

    short = operators.matmul(**sizes, terms=1023)
    outcome = run(shared, task, compiled(short)).outcome

    assert isinstance(outcome, Failed)
    assert outcome.fault is Fault.WRONG_RESULT
    assert "of 256 elements are wrong; first at [0, " in outcome.detail


def test_integers_off_by_one_are_wrong(
    shared: ChildRunner, tmp_path: Path, compiled: Callable[[Any], Path]
) -> None:
    task = task_of(operators.integer_sum())
    baseline(shared, task, compiled(operators.integer_sum()))

    wrong = compiled(operators.integer_sum(off_by=1))
    outcome = run(shared, task, wrong).outcome

    assert isinstance(outcome, Failed)
    assert outcome.fault is Fault.WRONG_RESULT
    assert outcome.detail.startswith("8 of 8 elements are wrong; first at [0]: ")


@pytest.mark.parametrize(
    ("loops", "detail"),
    [
        (
            [loop("cut", "B[v] = A[v] * T.float32(2)", count=63)],
            "1 of 64 elements are wrong, 1 never written; first at [63]: nan instead of ",
        ),
        (
            [DOUBLE, loop("again", "B[v] = B[v] + A[v]", start=8, count=2)],
            "2 of 64 elements are wrong; first at [8]: ",
        ),
        (
            [loop("onto", "B[v] = B[v] + A[v] * T.float32(2)")],
            "64 of 64 elements are wrong, 64 never written; first at [0]: nan",
        ),
        (
            [loop("shifted", "B[v] = A[(v + 1) % 64] * T.float32(2)")],
            "64 of 64 elements are wrong; first at [0]: ",
        ),
    ],
    ids=["tail cut off", "written twice", "accumulated onto rubbish", "shifted"],
)
def test_a_wrong_schedule_is_told_where(
    shared: ChildRunner,
    tmp_path: Path,
    loops: list[str],
    detail: str,
    compiled: Callable[[Any], Path],
) -> None:
    task = task_of(DOUBLED)
    baseline(shared, task, compiled(DOUBLED))

    report = run(shared, task, compiled(from_text(*loops)))

    assert isinstance(report.outcome, Failed)
    assert report.outcome.fault is Fault.WRONG_RESULT
    assert detail in report.outcome.detail
    assert report.stage_seconds.measure < 0.1  # what is wrong is not timed


def test_what_overwrites_its_inputs_spoils_nothing_for_others(
    shared: ChildRunner, tmp_path: Path, compiled: Callable[[Any], Path]
) -> None:
    task = task_of(DOUBLED)
    baseline(shared, task, compiled(DOUBLED))
    clobber = from_text(DOUBLE, loop("clobber", "A[v] = T.float32(7)"))

    first = run(shared, task, compiled(clobber))
    second = run(shared, task, compiled(DOUBLED))

    assert isinstance(first.outcome, Measured)
    assert isinstance(second.outcome, Measured)


def test_one_far_behind_is_stopped_after_its_first_repeat(
    shared: ChildRunner, tmp_path: Path, compiled: Callable[[Any], Path]
) -> None:
    task = task_of(operators.matmul())
    report = baseline(shared, task, compiled(operators.matmul()))
    assert isinstance(report.outcome, Measured)
    library = compiled(operators.matmul())

    behind = run(shared, task, library, report.outcome.median_seconds / 1000).outcome
    ahead = run(shared, task, library, report.outcome.median_seconds * 1000).outcome

    assert isinstance(behind, Measured)
    assert behind.stopped_early
    assert len(behind.repeats_seconds) == 1
    assert isinstance(ahead, Measured)
    assert not ahead.stopped_early
    assert len(ahead.repeats_seconds) == TIMING.repeats


def test_a_library_that_is_none_does_not_load(
    shared: ChildRunner, tmp_path: Path, compiled: Callable[[Any], Path]
) -> None:
    task = task_of(operators.matmul())
    baseline(shared, task, compiled(operators.matmul()))
    rubbish = tmp_path / "rubbish.so"
    rubbish.write_text("no library")

    outcome = run(shared, task, rubbish).outcome

    assert isinstance(outcome, Failed)
    assert outcome.fault is Fault.LOAD_ERROR
    assert "rubbish.so" in outcome.detail


def test_an_error_that_the_operator_raises_is_its_own(
    shared: ChildRunner, tmp_path: Path, compiled: Callable[[Any], Path]
) -> None:
    task = task_of(operators.matmul())
    baseline(shared, task, compiled(operators.matmul()))

    outcome = run(shared, task, compiled(operators.matmul(k=16))).outcome

    assert isinstance(outcome, Failed)
    assert outcome.fault is Fault.RUN_ERROR
    assert outcome.detail.startswith("Mismatched A.")


def test_another_child_finds_the_reference(
    shared: ChildRunner, tmp_path: Path, compiled: Callable[[Any], Path]
) -> None:
    task = task_of(DOUBLED)
    baseline(shared, task, compiled(DOUBLED))
    successor = open_runner(shared._scratch)
    try:
        successor.select(task, 1e-6)
        assert successor.has_reference
        right = run(successor, task, compiled(DOUBLED))
        wrong = run(successor, task, native.native(tmp_path / "wrong.so", native.NOTHING))
    finally:
        successor.close()

    assert isinstance(right.outcome, Measured)
    assert isinstance(wrong.outcome, Failed)
    assert "64 never written" in wrong.outcome.detail


@pytest.mark.slow
def test_a_library_takes_its_child_along_and_nothing_else(
    runner: ChildRunner, tmp_path: Path, compiled: Callable[[Any], Path]
) -> None:
    task = task_of(DOUBLED)
    baseline(runner, task, compiled(DOUBLED))
    for number, (body, fault, detail) in enumerate(
        [
            (native.CRASH, Fault.ILLEGAL_ACCESS, "died: SIGSEGV"),
            (native.ABORT, Fault.RUN_ERROR, "died: SIGABRT"),
            (native.DIVIDE_BY_ZERO, Fault.RUN_ERROR, "died: SIGFPE"),
            (native.HANG, Fault.RUN_TIMEOUT, "stopped after 2.0 s"),
            (native.VANISH, Fault.WORKER_DIED, "died: exit code 0"),
            (native.KILL, Fault.WORKER_DIED, "died: SIGKILL"),
        ]
    ):
        victim = pid_of(runner)

        outcome = run(runner, task, native.native(tmp_path / f"bad{number}.so", body)).outcome

        assert isinstance(outcome, Failed), body
        assert outcome.fault is fault
        assert detail in outcome.detail.splitlines()[0]
        assert is_gone(victim)
        good = run(runner, task, compiled(DOUBLED))
        assert isinstance(good.outcome, Measured), good.outcome


def test_a_schedule_that_reads_far_outside_is_an_illegal_access(
    runner: ChildRunner, tmp_path: Path, compiled: Callable[[Any], Path]
) -> None:
    task = task_of(DOUBLED)
    baseline(runner, task, compiled(DOUBLED))
    outside = from_text(loop("outside", "B[v] = A[v + 1000000000]"))

    outcome = run(runner, task, compiled(outside)).outcome

    assert isinstance(outcome, Failed)
    assert outcome.fault is Fault.ILLEGAL_ACCESS
    assert "SIGSEGV" in outcome.detail.splitlines()[0]


def test_a_share_that_is_not_in_force_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChildDiedError, match="the share is not in force"):
        ChildRunner(cores=(CORE, 1023), scratch=tmp_path, options=RunOptions(), name="slot")


def test_closing_twice_is_safe(tmp_path: Path) -> None:
    runner = open_runner(tmp_path)
    child = pid_of(runner)

    runner.close()
    runner.close()

    assert is_gone(child)
