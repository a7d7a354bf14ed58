"""Tables of a run's result for a terminal."""

from __future__ import annotations

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tune_farm.server.report.narrow import room_of
from tune_farm.server.report.summary import EndToEnd, Summary, TaskState, TaskSummary, TrialCounts
from tune_farm.server.report.units import (
    format_duration,
    format_gain,
    format_seconds,
    format_spread,
)

_LAYOUTS = {"given": "as given", "packed": "channels last, weights in panels"}
_STYLES = {
    TaskState.TUNED: "green",
    TaskState.BASELINE: "yellow",
    TaskState.FAILED: "red",
    TaskState.PENDING: "dim",
    TaskState.UNUSED: "dim",
}
#: Characters of a line that a name or a state can be read by; longer ones take several lines.
_LEAST_NAME = 7
_STATE_WIDTH = 8


def print_summary(console: Console, summary: Summary) -> None:
    """Print the table of tasks and the panel below it."""
    console.print(tasks_table(summary, console.width))
    console.print(summary_panel(summary))


def tasks_table(summary: Summary, width: int) -> Table:
    """Return one row a task, the largest saving first; names take more lines where it is narrow."""
    tasks = sorted(summary.tasks, key=lambda task: -task.saved_seconds)
    rows = [_cells(task) for task in tasks]
    widths = {
        title: max([len(title), *(len(row[title].plain) for row in rows)])
        for title in ("weight", "trials", "baseline", "best", "gain")
    }
    room = room_of(width, widths | {"state": _STATE_WIDTH}, least=_LEAST_NAME)
    title = f"{summary.model} on {summary.device}" + (f" - {summary.mark}" if summary.mark else "")
    # Text, because rich would take the brackets in a name for its markup.
    table = Table(title=Text(title), title_justify="left")
    table.add_column("task", overflow="fold", min_width=min(room.name, _LEAST_NAME))
    for column in room.columns:
        if column == "state":
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    for task, row in zip(tasks, rows, strict=True):
        table.add_row(Text(task.label), *(row[column] for column in room.columns))
    return table


def _cells(task: TaskSummary) -> dict[str, Text]:
    state = task.state.value + (f": {task.reason}" if task.reason else "")
    return {
        "weight": Text("-" if task.weight is None else str(task.weight)),
        "trials": Text(str(task.trials)),
        "baseline": Text(format_seconds(task.baseline_seconds)),
        "best": Text(format_spread(task.best_seconds, task.spread_seconds)),
        "gain": Text(format_gain(task.baseline_seconds, task.best_seconds)),
        "state": Text(state, style=_STYLES[task.state]),
    }


def summary_panel(summary: Summary) -> Panel:
    """Return what holds for the run as a whole."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts(summary):
        grid.add_row(name, Text(value))
    title = "run" + (f" - {summary.mark}" if summary.mark else "")
    return Panel(Group(grid), title=Text(title), title_align="left", expand=False)


def facts(summary: Summary) -> list[tuple[str, str]]:
    """Return the run as pairs of a name and a value, for people."""
    rows = [
        ("run", summary.run_directory),
        ("share", share_text(summary)),
        ("clients", str(summary.clients)),
        ("layout", _LAYOUTS.get(summary.layout, summary.layout)),
        ("trials", trials_text(summary.trials)),
        *([] if summary.checked else [("check", "off: no output was compared with another")]),
        ("end to end", end_to_end_text(summary.end_to_end)),
        ("wall time", format_duration(summary.wall_seconds)),
    ]
    stages = ", ".join(f"{name} {format_duration(s)}" for name, s in summary.stage_seconds)
    if stages:
        rows.append(("stages", stages))
    if summary.predictor is not None:
        rows.append(("predictor", _predictor_text(summary)))
    rows += [("cannot be tuned", f"{item.name}: {item.reason}") for item in summary.untunable]
    rows += [("skipped", f"{item.name}: {item.reason}") for item in summary.skipped]
    if summary.first_failure:
        rows.append(("first failure", summary.first_failure))
    code = "the run has not ended" if summary.exit_code is None else str(summary.exit_code)
    return [*rows, ("exit code", code)]


def share_text(summary: Summary) -> str:
    """Return what was asked and what was granted."""
    share = summary.share
    unit = "cores" if share.kind == "cores" else "SMs or cores" if share.kind == "whole" else "SMs"
    return f"{share.kind}: {share.percent} % asked, {share.granted} of {share.total} {unit} granted"


def trials_text(trials: TrialCounts) -> str:
    """Return the counts of candidates in words."""
    text = f"{trials.measured} measured, {trials.pruned_static} over a limit, "
    text += f"{trials.pruned_predicted} predicted slow, {trials.failed_total} failed"
    if trials.failed:
        text += f" ({', '.join(f'{count} {fault}' for fault, count in trials.failed)})"
    return text


def end_to_end_text(end_to_end: EndToEnd | None) -> str:
    """Return the verdict on the whole model."""
    if end_to_end is None:
        return "not measured"
    baseline, tuned = end_to_end.baseline_seconds, end_to_end.tuned_seconds
    text = f"{format_seconds(baseline)} untuned, {format_seconds(tuned)} tuned"
    text += f" ({format_gain(baseline, tuned)})"
    if end_to_end.wrong:
        text += f"; the output is WRONG: {end_to_end.wrong}"
    elif not end_to_end.checked:
        text += "; output not checked"
    else:
        text += "; output checked"
        if end_to_end.rounding_error is not None and end_to_end.max_relative_error is not None:
            text += (
                f": it differs by {end_to_end.max_relative_error:.2%}, rounding alone moves it by "
                f"{end_to_end.rounding_error:.2%}"
            )
    if end_to_end.shipped == "untuned":
        text += "; the untuned build is kept"
    return text


def _predictor_text(summary: Summary) -> str:
    predictor = summary.predictor
    assert predictor is not None
    rank = "-" if predictor.spearman is None else f"{predictor.spearman:.2f}"
    tau = "-" if predictor.kendall_all is None else f"{predictor.kendall_all:.2f}"
    recall = "-" if predictor.recall_at_keep is None else f"{predictor.recall_at_keep:.0%}"
    text = f"rank correlation {rank} of the measured, tau {tau} of all drafts, recall {recall}"
    if predictor.regret is not None:
        text += f", regret {predictor.regret:.1%}"
    text += f", {predictor.audited} audited"
    if predictor.chance_tasks:
        text += f"; no better than chance on {predictor.chance_tasks} tasks, where it stepped back"
    return text
