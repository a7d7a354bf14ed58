"""A terminal gets a picture that fits it; a batch log gets a line a minute and each new phase."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from tune_farm.server.report.screen import Screen, picture
from tune_farm.server.report.view import ClientRow, Progress, TaskRow

TASKS = tuple(
    TaskRow(
        name=f"task[{number}]",
        weight=number + 1,
        trials=16,
        baseline_seconds=2e-3,
        best_seconds=1e-3 if number % 2 else None,
        state="searching",
    )
    for number in range(60)
)
PROGRESS = Progress(
    phase="search",
    elapsed_seconds=30.0,
    budget_seconds=600.0,
    measured=8,
    pruned=100,
    failed=(("run_error", 2),),
    tasks=TASKS,
    clients=tuple(ClientRow(name=f"gpu{n}", doing="measuring conv2d") for n in range(16)),
    last_failure="run_error: misaligned\naddress",
    dashboard_url="http://127.0.0.1:8265",
    mark="SIMULATED",
)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_batch_log_gets_a_line_a_minute(clock: Clock) -> None:
    file = io.StringIO()
    with Screen(Console(file=file, width=80), clock) as screen:
        for second in range(180):
            clock.now = 1000.0 + second
            screen.update(replace(PROGRESS, elapsed_seconds=float(second)))
    lines = file.getvalue().splitlines()
    assert len(lines) == 4, "at 0, 1 and 2 minutes, and how it ended"
    assert lines[1] == (
        "SIMULATED search: 1 min 00 s of 10 min 00 s, about 9 min 00 s left; "
        "8 measured, 100 pruned, 2 failed (2 run_error); 30 of 60 tasks with a result; "
        "last failure: run_error: misaligned address"
    )
    assert "2 min 59 s" in lines[3]


def test_new_phase_is_told_at_once(clock: Clock) -> None:
    file = io.StringIO()
    with Screen(Console(file=file), clock) as screen:
        for phase in ("set-up", "set-up", "baselines", "search"):
            screen.update(replace(PROGRESS, phase=phase))
    told = [line.split()[1] for line in file.getvalue().splitlines()]
    assert told == ["set-up:", "baselines:", "search:"]


def test_nothing_to_tell_is_nothing_told(clock: Clock) -> None:
    file = io.StringIO()
    with Screen(Console(file=file), clock):
        pass
    assert file.getvalue() == ""


@pytest.mark.parametrize(("height", "width"), [(24, 80), (50, 200), (10, 60)])
def test_picture_fits_the_terminal(height: int, width: int) -> None:
    file = io.StringIO()
    Console(file=file, width=width).print(picture(PROGRESS, height=height))
    lines = file.getvalue().splitlines()
    assert len(lines) <= max(height, 17)
    assert max(map(len, lines)) <= width


def test_picture_shows_the_costliest_tasks() -> None:
    file = io.StringIO()
    Console(file=file, width=120).print(picture(PROGRESS, height=30))
    text = file.getvalue()
    assert "task[58]" in text, "120 us are worth more than 60"
    assert "task[0]" not in text
    assert text.splitlines()[2].startswith("8 measured"), "the bar has a line of its own"
    assert "more" in text
    assert "gpu0" in text
    assert "dashboard: http://127.0.0.1:8265" in text
    assert "run_error: misaligned address" in text


def test_terminal_is_drawn_no_more_often_than_the_eye_follows(clock: Clock) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100, height=30)
    with Screen(console, clock) as screen:
        screen.update(PROGRESS)
        size = len(file.getvalue())
        assert size > 0
        clock.now += 0.1
        screen.update(PROGRESS)
        assert len(file.getvalue()) == size
        clock.now += 1.0
        screen.update(PROGRESS)
        assert len(file.getvalue()) > size


def test_small_task_list_is_shown_whole() -> None:
    file = io.StringIO()
    few = replace(PROGRESS, tasks=TASKS[:3], clients=(), last_failure=None, budget_seconds=None)
    Console(file=file, width=100).print(picture(few, height=24))
    assert "more" not in file.getvalue()
