"""A running farm on stderr: a live picture on a terminal, a line a minute in a batch log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tune_farm.server.report.narrow import Fitted, room_of, shorten
from tune_farm.server.report.units import format_duration, format_gain, format_seconds
from tune_farm.server.report.view import Progress, TaskRow

LOG_PERIOD_SECONDS = 60.0
#: Drawing costs a core that may be needed for a build: no more often than the eye can follow.
DRAW_PERIOD_SECONDS = 0.5
#: Lines of the picture that are neither tasks nor clients: head, bar, counts, borders, failure.
_FIXED_LINES = 14
_COLUMNS = ("weight", "trials", "baseline", "best", "gain", "state")
#: Characters that an operator can still be told by.
_LEAST_NAME = 12


class Screen:
    """Shows `Progress`, as a context manager; draws only when updated and keeps no thread."""

    def __init__(
        self, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare the screen.

        Args:
            console: where to draw; stderr if None, so that stdout keeps to the result.
            clock: gives seconds, from any start.
        """
        self._console = console or Console(file=sys.stderr)
        self._clock = clock
        #: The live picture; None in a batch log.
        self._live: Live | None = None
        #: When something was last shown.
        self._shown_at: float | None = None
        #: The phase last shown.
        self._phase: str | None = None
        #: The latest picture, if it was not shown yet.
        self._pending: Progress | None = None

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is None:
            # The last line of a batch log is how it ended, not how it was up to a minute before.
            if self._pending is not None:
                self._show(self._pending)
        else:
            self._live.stop()
            self._live = None

    def update(self, progress: Progress) -> None:
        """Show the picture: at once in a new phase, else when due; calling often is cheap."""
        self._pending = progress
        period = LOG_PERIOD_SECONDS if self._live is None else DRAW_PERIOD_SECONDS
        due = self._shown_at is None or self._clock() - self._shown_at >= period
        if due or progress.phase != self._phase:
            self._show(progress)

    def _show(self, progress: Progress) -> None:
        if self._live is None:
            self._console.print(Text(log_line(progress)), soft_wrap=True)
        else:
            self._live.update(picture(progress, height=self._console.height), refresh=True)
        self._shown_at = self._clock()
        self._phase = progress.phase
        self._pending = None


def log_line(progress: Progress) -> str:
    """Return the picture as one line."""
    parts = [_head(progress), _counts(progress), f"{_finished(progress)} tasks with a result"]
    if progress.last_failure:
        parts.append(f"last failure: {' '.join(progress.last_failure.split())[:160]}")
    return "; ".join(parts)


def picture(progress: Progress, *, height: int) -> RenderableType:
    """Return the picture for a terminal of `height` lines: the costliest tasks, some clients."""
    parts: list[RenderableType] = [Text(_head(progress), style="bold", overflow="ellipsis")]
    if progress.fraction is not None:
        line = Table.grid()  # the bar by itself does not end its line
        line.add_row(ProgressBar(total=1.0, completed=progress.fraction, width=60))
        parts.append(line)
    parts.append(Text(_counts(progress)))
    room = max(2, height - _FIXED_LINES)
    clients = progress.clients[: max(1, room // 3)]
    parts.append(Fitted(make=partial(_tasks, progress, room - len(clients))))
    if clients:
        parts.append(_clients(progress, len(clients)))
    if progress.last_failure:
        failure = " ".join(progress.last_failure.split())
        parts.append(
            Text(f"last failure: {failure}", style="red", overflow="ellipsis", no_wrap=True)
        )
    if progress.dashboard_url:
        parts.append(Text(f"dashboard: {progress.dashboard_url}", style="dim"))
    return Group(*parts)


def _tasks(progress: Progress, limit: int, width: int) -> Table:
    ordered = sorted(progress.tasks, key=lambda row: -row.cost_seconds)
    shown = ordered if len(ordered) <= limit else ordered[: max(1, limit - 1)]
    cells = [_cells(row) for row in shown]
    widths = {title: max(map(len, [title, *(row[title] for row in cells)])) for title in _COLUMNS}
    room = room_of(width, widths, least=_LEAST_NAME)
    table = Table()
    table.add_column("task", overflow="ellipsis", no_wrap=True)
    for title in room.columns:
        justify: Literal["left", "right"] = "left" if title == "state" else "right"
        table.add_column(title, justify=justify, overflow="ellipsis", no_wrap=True)
    for task, row in zip(shown, cells, strict=True):
        name = Text(shorten(task.name, room.name))
        table.add_row(name, *(Text(row[title]) for title in room.columns))
    if len(shown) < len(ordered):
        table.add_row(Text(f"and {len(ordered) - len(shown)} more", style="dim"))
    return table


def _cells(row: TaskRow) -> dict[str, str]:
    values = (
        str(row.weight),
        str(row.trials),
        format_seconds(row.baseline_seconds),
        format_seconds(row.best_seconds),
        format_gain(row.baseline_seconds, row.best_seconds),
        row.state,
    )
    return dict(zip(_COLUMNS, values, strict=True))


def _clients(progress: Progress, limit: int) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="ellipsis", no_wrap=True)
    for row in progress.clients[:limit]:
        grid.add_row(Text(row.name), Text(row.doing))
    if limit < len(progress.clients):
        grid.add_row("", Text(f"and {len(progress.clients) - limit} more", style="dim"))
    return grid


def _head(progress: Progress) -> str:
    text = f"{progress.mark} " if progress.mark else ""
    text += f"{progress.phase}: {format_duration(progress.elapsed_seconds)}"
    if progress.budget_seconds:
        text += f" of {format_duration(progress.budget_seconds)}"
    if progress.budget_trials:
        text += f", {progress.trials} of {progress.budget_trials} trials"
    if progress.eta_seconds is not None:
        text += f", about {format_duration(progress.eta_seconds)} left"
    return text


def _counts(progress: Progress) -> str:
    text = f"{progress.measured} measured, {progress.pruned} pruned, {progress.failed_total} failed"
    if progress.failed:
        text += f" ({', '.join(f'{count} {fault}' for fault, count in progress.failed)})"
    return text


def _finished(progress: Progress) -> str:
    done = sum(row.best_seconds is not None for row in progress.tasks)
    return f"{done} of {len(progress.tasks)}"
