"""The front door: finds the command, loads only its module, and ends the process with its code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

import tune_farm
from tune_farm.cli import errors, options

#: Every command with its line in `--help`, which must not import the commands (TVM takes seconds).
COMMANDS = {
    "run": "Tune a model's operators on fixed shares of this machine's devices.",
    "tasks": "List a model's operators without tuning.",
    "devices": "Show what this machine offers: CPU, GPUs, memory, driver.",
    "doctor": "Check that this machine can tune; name the remedy where not.",
    "report": "Show the results of a run.",
    "forecast": "Forecast a model's latency on GPUs that need not be here.",
}


class LazyGroup(click.Group):
    """A group whose commands are imported when called, from `tune_farm.cli.<name>`."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """The names, in the order of a first session."""
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Import one command; None if there is no such command."""
        if name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"tune_farm.cli.{name}"), name)
        assert isinstance(command, click.Command), name
        return command

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands' lines without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str = "tune-farm", **extra: Any
    ) -> NoReturn:
        """Run the command line and exit; nothing but SystemExit leaves it."""
        errors.log_to_stderr()
        extra["standalone_mode"] = False
        run = super().main
        sys.exit(errors.exit_code_of(lambda: run(args, prog_name, **extra)))


@click.group(
    cls=LazyGroup,
    context_settings=options.CONTEXT_SETTINGS,
    epilog="Example: tune-farm run resnet50 --sm-share 40 --budget 10m",
)
@click.version_option(tune_farm.__version__, prog_name="tune-farm")
@errors.verbosity
def main() -> None:
    """Tune a model's operators on fixed shares of GPUs and CPUs.

    Results go to stdout, progress and logs to stderr. Every option can also be set by an
    environment variable (--sm-share: TUNE_FARM_SM_SHARE) or in a TOML file (--config).
    """
