"""The command line: `tune-farm COMMAND`; each command is a module of its name."""

from tune_farm.cli.app import main

__all__ = ["main"]
