"""The commented defaults are the command's defaults."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tune_farm.cli.run import run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULTS = Path(__file__).parent.parent / "configs" / "default.toml"


def test_every_default_is_listed_with_its_value() -> None:
    expected = {
        option.opts[0].lstrip("-"): option.default
        for option in run.params
        if isinstance(option, click.Option)
        and not option.is_flag
        and isinstance(option.default, int | float | str)
        and option.name != "format"
    }
    assert tomllib.loads(DEFAULTS.read_text())["run"] == expected
