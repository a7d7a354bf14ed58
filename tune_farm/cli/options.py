"""What all commands share: kinds of values, listings, config files, a value's source."""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from tune_farm.cli.errors import source_of, verbosity
from tune_farm.tuner.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: For the group and each command alike: `--sm-share` is TUNE_FARM_SM_SHARE under any of them.
CONTEXT_SETTINGS = {
    "auto_envvar_prefix": "TUNE_FARM",
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
}
_MOST_TASKS = 100_000  # "0-999999999999" is a slip, not a selection to hold in memory
_DURATION = re.compile(
    r"(?:([0-9.]+)d)?(?:([0-9.]+)h)?(?:([0-9.]+)m)?(?:([0-9.]+)s)?", re.IGNORECASE
)
_UNIT_SECONDS = (86_400, 3_600, 60, 1)
_NEVER_CONFIGURED = ("config", "print_config", "verbose", "quiet", "help")

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Count(click.ParamType[int, Any]):
    """A whole number, at least one."""

    name = "count"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Parse, or fail naming value and range."""
        if (number := _whole(value)) is None or number < 1:
            self.fail(f"{value!r} is not a count; give a whole number, at least 1", param, ctx)
        return number


class Fraction(click.ParamType[float, Any]):
    """A part of a whole, 0 to 1."""

    name = "fraction"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Parse, or fail naming value and range."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not 0.0 <= number <= 1.0:
            self.fail(f"{value!r} is not a part of a whole; give 0 to 1", param, ctx)
        return number


class AutoOr(click.ParamType[Any, Any]):
    """Either the word "auto", None inside, or a value of another kind."""

    def __init__(self, kind: click.ParamType[Any, Any]) -> None:
        self.name = f"auto|{kind.name}"
        self._kind = kind

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Parse, or fail as the other kind does."""
        return None if value in ("auto", None) else self._kind.convert(value, param, ctx)


class Percent(click.ParamType[int, Any]):
    """A whole percentage, 1 to 100."""

    name = "percent"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Parse, or fail naming value and range."""
        if (number := _whole(value)) is None or not 1 <= number <= 100:
            self.fail(f"{value!r} is not a percentage; give a whole number, 1 to 100", param, ctx)
        return number


class Duration(click.ParamType[float, Any]):
    """A time span such as "10m", "1h30m", "2.5h" or, in bare seconds, "600"; seconds inside."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Parse to seconds, or fail with the forms."""
        seconds = math.nan if isinstance(value, bool) else _seconds(str(value).strip())
        if not 0 < seconds < math.inf:
            self.fail(
                f"{value!r} is not a duration above zero; give seconds or a form like "
                "10m, 90s, 1h30m, 2.5h",
                param,
                ctx,
            )
        return seconds


class TaskSelection(click.ParamType[tuple[int, ...], Any]):
    """Task numbers such as "0,3-5"; sorted, each once."""

    name = "tasks"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        """Parse to numbers, or fail naming the part that is none."""
        if isinstance(value, tuple):
            return value
        chosen: set[int] = set()
        for part in str(value).split(","):
            match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part.strip())
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if not first <= last < _MOST_TASKS:
                self.fail(
                    f"{part.strip()!r} in {value!r} selects no task; give numbers and ranges like "
                    "0,3-5",
                    param,
                    ctx,
                )
            chosen.update(range(first, last + 1))
        return tuple(sorted(chosen))


class ShapeBinding(click.ParamType[tuple[str, int], Any]):
    """The size of one symbolic dimension, "n=4"."""

    name = "name=size"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int]:
        """Parse to (name, size), or fail with the form."""
        if isinstance(value, tuple):
            return value
        name, _, size = str(value).partition("=")
        number = _whole(size)
        if not name.strip().isidentifier() or number is None or number < 1:
            self.fail(f"{value!r} binds no dimension; give a form like n=4", param, ctx)
        return name.strip(), number


def listing_format(command: _Command) -> _Command:
    """Add `--format table|json|csv` as parameter `format`."""
    return click.option(
        "--format",
        type=click.Choice(["table", "json", "csv"]),
        default="table",
        show_default=True,
        help="How the result is written to stdout.",
    )(command)


def write_listing(
    rows: Sequence[Mapping[str, object]],
    form: str,
    *,
    wrapper: str = "rows",
    extra: Mapping[str, object] | None = None,
) -> None:
    """Write rows with equal keys to stdout.

    Args:
        rows: at least one; the keys are the columns, `*_bytes` is shown in GiB in a table.
        form: "table", "json" or "csv".
        wrapper: the key under which a JSON document holds the rows.
        extra: more keys of the JSON document.
    """
    if form == "json":
        click.echo(json.dumps({wrapper: rows, **(extra or {})}, indent=2, default=str))
        return
    columns = list(rows[0])
    if form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([row[column] for column in columns] for row in rows)
        return
    table = [[column.removesuffix("_bytes").replace("_", " ") for column in columns]]
    table += [[_cell(column, row[column]) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        cells = (f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def configured(command: _Command) -> _Command:
    """Add -v, -q, `--config` and `--print-config`; goes with `@click.command(cls=Configured)`."""
    command = click.option(
        "--print-config", is_flag=True, help="Show each value and where it came from; do no more."
    )(command)
    command = click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        is_eager=True,
        callback=_load_config,
        help="TOML file with values for options; flags and TUNE_FARM_* variables win over it.",
    )(command)
    return verbosity(command)


class Configured(click.Command):
    """A command that reads config files; its function sees neither `config` nor `print_config`."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        settings["context_settings"] = {**CONTEXT_SETTINGS, **settings.get("context_settings", {})}
        super().__init__(*arguments, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, or print its configuration."""
        if ctx.params.get("print_config"):
            _print_config(ctx)
            return 0
        for name in ("config", "print_config"):
            ctx.params.pop(name, None)
        return super().invoke(ctx)


def read_config(path: Path, command: click.Command, commands: Iterable[str]) -> dict[str, Any]:
    """The values that a TOML file holds for one command, by parameter name.

    A key is an option without its dashes (`sm-share` or `sm_share`). Keys under a table named like
    the command are for it alone; tables of other commands are theirs.

    Raises:
        UsageError: the file is no TOML, or has a key that is no option.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"config file {path} cannot be read: {error}") from error
    tables = {key: value for key, value in document.items() if isinstance(value, dict)}
    for key in tables:
        if key not in commands:
            raise _unknown(path, f"[{key}] is no command", commands)
    values = {key: value for key, value in document.items() if key not in tables}
    values.update(tables.get(command.name or "", {}))
    options = [each.name or "" for each in command.params if isinstance(each, click.Option)]
    allowed = [name.replace("_", "-") for name in options if name not in _NEVER_CONFIGURED]
    for key in values:
        if key.replace("_", "-") not in allowed:
            raise _unknown(path, f"{key!r} is no option of '{command.name}'", allowed)
    return {key.replace("-", "_"): value for key, value in values.items()}


def _unknown(path: Path, what: str, known: Iterable[str]) -> UsageError:
    return UsageError(f"config file {path}: {what}", f"known: {', '.join(sorted(known))}")


def _load_config(context: click.Context, _parameter: click.Parameter, path: Any) -> Any:
    if path is not None:
        group = context.parent.command if context.parent else None
        commands = group.list_commands(context) if isinstance(group, click.Group) else []
        values = read_config(path, context.command, commands)
        context.default_map = {**(context.default_map or {}), **values}
    return path


def _print_config(context: click.Context) -> None:
    shown = [
        (parameter, context.params[parameter.name], source_of(context, parameter))
        for parameter in context.command.params
        if parameter.name in context.params and parameter.name != "print_config"
    ]
    names = [(parameter.name or "").replace("_", "-") for parameter, _, _ in shown]
    form = str(context.params.get("format", "table"))
    if form == "json":
        document = {
            name: {"value": value, "source": source}
            for name, (_, value, source) in zip(names, shown, strict=True)
        }
        click.echo(json.dumps(document, indent=2, default=str))
        return
    rows = [
        {"option": name, "value": _show(value, parameter.type), "source": source}
        for name, (parameter, value, source) in zip(names, shown, strict=True)
    ]
    write_listing(rows, form)


def _show(value: Any, kind: click.ParamType[Any, Any]) -> str:
    if value is None:
        return "-"
    unit = {Percent: "%", Duration: " s"}.get(type(kind), "")
    return f"{value:g}{unit}" if isinstance(value, float) else f"{value}{unit}"


def _cell(column: str, value: object) -> str:
    if value is None:
        return "-"
    if column.endswith("_bytes") and isinstance(value, int):
        return f"{value / (1 << 30):.1f} GiB"
    return str(value)


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not re.fullmatch(r"[+-]?[0-9]{1,18}", str(value).strip()):
        return None
    return int(str(value).strip())


def _seconds(text: str) -> float:
    match = _DURATION.fullmatch(text)
    try:
        if match and any(match.groups()):
            parts = zip(match.groups(), _UNIT_SECONDS, strict=True)
            return sum(float(number) * unit for number, unit in parts if number)
        return float(text)
    except ValueError:
        return math.nan
