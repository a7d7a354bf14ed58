"""`tune-farm doctor`: can this machine tune, and what to do where it cannot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from tune_farm.cli.options import Configured, configured

if TYPE_CHECKING:
    from tune_farm.client.doctor.check import Check

_UNUSABLE = 5
_STYLES = {"ok": "green", "failed": "bold red", "note": "yellow"}


@click.command(cls=Configured, name="doctor", epilog="Example: tune-farm doctor --full")
@click.option(
    "--full",
    is_flag=True,
    help="Also start a private Ray cluster, prove a share of each GPU; end both.",
)
@click.option(
    "--format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How the result is written to stdout.",
)
@configured
def doctor(full: bool, format: str) -> int:  # noqa: A002 - named by its option
    """Check that this machine can tune; exit 5 if it cannot, each failed line with its remedy."""
    from tune_farm.client.doctor.check import Status
    from tune_farm.client.doctor.checks import run_checks

    done = []
    console = Console(highlight=False)
    for check in run_checks(full=full):
        done.append(check)
        if format == "table":
            console.print(_line(check), soft_wrap=True)
    usable = all(check.status is not Status.FAILED for check in done)
    if format == "json":
        checks = [
            {
                "name": check.name,
                "status": check.status.value,
                "detail": check.detail,
                "remedy": check.remedy or None,
            }
            for check in done
        ]
        click.echo(json.dumps({"usable": usable, "checks": checks}, indent=2))
    return 0 if usable else _UNUSABLE


def _line(check: Check) -> Text:
    status = check.status.value
    line = Text(f"{status:<6}", style=_STYLES[status])
    line.append(f"  {check.name:<22}  {check.detail}", style="default")
    if check.remedy:
        line.append(f"; remedy: {check.remedy}", style="default")
    return line
