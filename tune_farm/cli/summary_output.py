"""Writes a run's summary to stdout, in the format asked for."""

from __future__ import annotations

import csv
import io
import json
import sys

import click
from rich.console import Console

from tune_farm.server.report.markdown import to_markdown
from tune_farm.server.report.summary import Summary, summary_to_json
from tune_farm.server.report.table import print_summary

#: Where no terminal tells its width: enough for a row to stay one row.
_FILE_WIDTH = 140
_COLUMNS = (
    "id",
    "name",
    "weight",
    "baseline_seconds",
    "best_seconds",
    "spread_seconds",
    "trials",
    "state",
    "reason",
    "variant",
    "simulated",
    "checked",
)


def write_summary(summary: Summary, form: str) -> None:
    """Write a summary.

    Args:
        summary: what to write.
        form: "table", "json" (one document), "csv" (a line a task) or "markdown".
    """
    if form == "table":
        console = Console(file=sys.stdout)
        if not console.is_terminal:
            console = Console(file=sys.stdout, width=_FILE_WIDTH)
        print_summary(console, summary)
    else:
        click.echo({"json": _json, "csv": _csv, "markdown": to_markdown}[form](summary), nl=False)


def _json(summary: Summary) -> str:
    return json.dumps(summary_to_json(summary), indent=2) + "\n"


def _csv(summary: Summary) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    rows = summary_to_json(summary)["tasks"]
    marks = {"simulated": summary.simulated, "checked": summary.checked}
    writer.writerows(row | marks for row in rows)
    return file.getvalue()
