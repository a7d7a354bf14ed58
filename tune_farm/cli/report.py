"""`tune-farm report`: what a run found, once more or while it is still at it."""

from __future__ import annotations

from pathlib import Path

import click

from tune_farm.cli.options import Configured, configured
from tune_farm.cli.summary_output import write_summary
from tune_farm.server.report.stored import load_summary
from tune_farm.server.run_directory import lock_owner


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
    write_summary(summary, format)


def _unfinished(run: Path) -> str:
    owner = lock_owner(run)
    if owner:
        return f"{run} has not ended: its run ({owner}) is still at it; this is its journal so far"
    return (
        f"{run} never finished: this is what its journal holds; "
        "`tune-farm run` goes on with it by --out and --resume"
    )
