"""The result of a run as Markdown, for a merge request or a lab book."""

from __future__ import annotations

from collections.abc import Iterable

from tune_farm.server.report.summary import Summary
from tune_farm.server.report.table import facts
from tune_farm.server.report.units import format_gain, format_seconds, format_spread


def to_markdown(summary: Summary) -> str:
    """Return the same as the terminal shows; ends with a newline."""
    mark = f" ({summary.mark})" if summary.mark else ""
    lines = [f"# {_inline(summary.model)} on {_inline(summary.device)}{mark}", ""]
    lines += [_row(("", "")), "|---|---|"]
    lines += [_row((f"**{name}**", _cell(value))) for name, value in facts(summary)]
    lines += ["", f"## Tasks{mark}", ""]
    lines += [
        _row(("task", "weight", "trials", "baseline", "best", "gain", "state")),
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for task in sorted(summary.tasks, key=lambda task: -task.saved_seconds):
        state = task.state.value + (f": {task.reason}" if task.reason else "")
        lines.append(
            _row(
                (
                    _cell(task.label),
                    "-" if task.weight is None else str(task.weight),
                    str(task.trials),
                    format_seconds(task.baseline_seconds),
                    format_spread(task.best_seconds, task.spread_seconds),
                    format_gain(task.baseline_seconds, task.best_seconds),
                    _cell(state),
                )
            )
        )
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _inline(text: str) -> str:
    # Names such as `fused_conv2d_add*` would otherwise turn into emphasis.
    for sign in "\\`*_[]<>":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _inline(text).replace("|", "\\|")
