"""`tune-farm report`: what a run found, once more or while it is still at it."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import click
from rich.console import Console

from tune_farm.cli.options import Configured, configured
from tune_farm.server.report.markdown import to_markdown
from tune_farm.server.report.stored import load_summary
from tune_farm.server.report.summary import Summary, summary_to_json
from tune_farm.server.report.table import print_summary
from tune_farm.server.run_directory import lock_owner

#: Where no terminal tells its width: enough for a row to stay one row.
_FILE_WIDTH = 140


@click.command(
    cls=Configured,
    name="report",
    epilog="Example: tune-farm report runs/20260101-resnet50-3f9a1c --format markdown",
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--format",
    type=click.Choice(["table", "json", "csv", "markdown"]),
    default="table",
    show_default=True,
    help="How the report is printed on stdout; csv has one line a task.",
)
@configured
def report(run: Path, format: str) -> None:  # noqa: A002 - named by its option
    """Print the report of the run directory RUN.

    A run that has not ended is reported as far as its journal tells.
    """
    summary = load_summary(run)
    if summary.exit_code is None:
        click.echo(_unfinished(run), err=True)
    if format == "table":
        console = Console(file=sys.stdout)
        if not console.is_terminal:
            console = Console(file=sys.stdout, width=_FILE_WIDTH)
        print_summary(console, summary)
    else:
        click.echo({"json": _json, "csv": _csv, "markdown": to_markdown}[format](summary), nl=False)


def _unfinished(run: Path) -> str:
    owner = lock_owner(run)
    if owner:
        return f"{run} has not ended: its run ({owner}) is still at it; this is its journal so far"
    return (
        f"{run} never finished: this is what its journal holds; "
        "`tune-farm run` goes on with it by --out and --resume"
    )


def _json(summary: Summary) -> str:
    return json.dumps(summary_to_json(summary), indent=2) + "\n"


def _csv(summary: Summary) -> str:
    file = io.StringIO()
    rows = summary_to_json(summary)["tasks"]
    fields = [
        "id",
        "name",
        "weight",
        "baseline_seconds",
        "best_seconds",
        "spread_seconds",
        "trials",
        "state",
        "reason",
        "simulated",
    ]
    writer = csv.DictWriter(file, fields, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row | {"simulated": summary.simulated} for row in rows)
    return file.getvalue()
