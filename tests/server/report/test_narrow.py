"""On narrow terminals columns go and names shorten; what is shown is shown whole."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from tests.server.report.test_screen import PROGRESS
from tests.server.report.test_table import show
from tune_farm.server.report.narrow import Room, room_of, shorten
from tune_farm.server.report.screen import picture
from tune_farm.server.report.summary import Summary
from tune_farm.server.report.view import Progress

NAME = "conv2d_add_relu.1x14x14x256-{}"
COLUMNS = {"weight": 6, "trials": 6, "baseline": 8, "best": 7, "gain": 6, "state": 9}


def test_nothing_goes_where_there_is_room() -> None:
    assert room_of(120, COLUMNS, least=12) == Room(columns=tuple(COLUMNS), name=56)


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (76, ("weight", "trials", "baseline", "best", "gain", "state")),
        (75, ("trials", "baseline", "best", "gain", "state")),
        (60, ("baseline", "best", "gain", "state")),
        (50, ("baseline", "best", "gain")),
        (40, ("best", "gain")),
        (30, ("best",)),
        (5, ("best",)),
    ],
)
def test_the_most_easily_missed_goes_first(width: int, columns: tuple[str, ...]) -> None:
    room = room_of(width, COLUMNS, least=12)

    assert room.columns == columns
    assert room.name >= 1


@pytest.mark.parametrize(
    ("width", "short"),
    [(28, "conv2d_add_relu.1x14x14x256"), (12, "conv2d…x256"), (5, "co…56"), (2, "c…"), (1, "…")],
)
def test_names_keep_both_ends(width: int, short: str) -> None:
    name = "conv2d_add_relu.1x14x14x256"

    assert len(shorten(name, width)) <= width
    assert shorten(name, width).startswith(short[:1])
    assert shorten(name, width)[-1] == short[-1]


def long_names() -> Progress:
    tasks = tuple(
        replace(row, name=NAME.format(number)) for number, row in enumerate(PROGRESS.tasks)
    )
    return replace(PROGRESS, tasks=tasks)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_live_picture_tells_operators_apart(width: int) -> None:
    file = io.StringIO()
    Console(file=file, width=width).print(picture(long_names(), height=24))

    lines = file.getvalue().splitlines()
    rows = [line for line in lines if line.startswith("│ conv2d")]
    assert len({line.split("│")[1].strip()[-2:] for line in rows}) == len(rows) > 3
    assert all("1.00 ms" in line or " - " in line for line in rows)
    assert max(map(len, lines)) <= width
    assert not any("…" in cell for line in rows for cell in line.split("│")[2:])


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_table_at_the_end_keeps_names_and_results(summary: Summary, width: int) -> None:
    text = show(summary, width)

    assert "2.00 ms ± 10.0 µs" in text
    cells = [line.split("│")[1].strip() for line in text.splitlines() if line.count("│") > 2]
    assert "conv2d_adddense[bold]|x" in "".join(cells)
    assert max(map(len, text.splitlines())) <= width
