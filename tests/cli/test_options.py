from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from tune_farm.cli.app import LazyGroup
from tune_farm.cli.options import (
    Configured,
    Count,
    Duration,
    Percent,
    ShapeBinding,
    TaskSelection,
    configured,
    listing_format,
)

seen: dict[str, Any] = {}


@click.command(cls=Configured, name="run")
@click.argument("model")
@click.option("--sm-share", type=Percent(), default=100)
@click.option("--budget", type=Duration())
@click.option("--shape", type=ShapeBinding(), multiple=True)
@click.option("--check/--no-check", default=True)
@listing_format
@configured
def command(**values: Any) -> None:
    seen.clear()
    seen.update(values)


class OneCommand(LazyGroup):
    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        return command if name == "run" else None


@click.group(cls=OneCommand, context_settings={"auto_envvar_prefix": "TUNE_FARM"})
def group() -> None:
    pass


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(group, ["run", *arguments], env=dict(environment))


def config(folder: Path, text: str) -> str:
    path = folder / "farm.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Percent(), "1", 1),
        (Percent(), "100", 100),
        (Percent(), 40, 40),
        (Count(), "7", 7),
        (Duration(), "10m", 600.0),
        (Duration(), "90s", 90.0),
        (Duration(), "1h30m", 5400.0),
        (Duration(), "2.5h", 9000.0),
        (Duration(), "600", 600.0),
        (Duration(), 600, 600.0),
        (Duration(), "1d", 86400.0),
        (TaskSelection(), "0,3-5", (0, 3, 4, 5)),
        (TaskSelection(), " 5 , 1-2, 2", (1, 2, 5)),
        (TaskSelection(), 3, (3,)),
        (ShapeBinding(), "n=4", ("n", 4)),
    ],
)
def test_values_are_parsed(kind: click.ParamType[Any, Any], text: Any, value: object) -> None:
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        *(
            (Percent(), text, "1 to 100")
            for text in ("abc", "0", "101", "4.5", "-1", "", "٤", True)
        ),
        *((Count(), text, "at least 1") for text in ("0", "-3", "many", "1e3", 2.5)),
        *(
            (Duration(), text, "10m, 90s")
            for text in (
                "0",
                "0s",
                "-5",
                "5 parsecs",
                "",
                "nan",
                "inf",
                "1m1h",
                ".s",
                "1e999",
                True,
            )
        ),
        *(
            (TaskSelection(), text, "0,3-5")
            for text in ("", "a", "5-3", "1,,2", "-1", "0-999999999")
        ),
        *((ShapeBinding(), text, "n=4") for text in ("n", "n=", "n=0", "4=n", "n=x", "=4")),
    ],
)
def test_what_cannot_be_meant_is_named(
    kind: click.ParamType[Any, Any], text: Any, says: str
) -> None:
    with pytest.raises(click.BadParameter) as caught:
        kind.convert(text, None, None)

    assert repr(text.strip() if isinstance(text, str) and text else text) in caught.value.message
    assert says in caught.value.message


@given(hours=st.integers(0, 99), minutes=st.integers(0, 999), seconds=st.integers(1, 999))
def test_a_duration_is_the_sum_of_its_parts(hours: int, minutes: int, seconds: int) -> None:
    text = f"{hours}h{minutes}m{seconds}s"

    assert Duration().convert(text, None, None) == hours * 3600 + minutes * 60 + seconds


@given(tasks=st.sets(st.integers(0, 500), min_size=1))
def test_a_selection_written_out_is_itself(tasks: set[int]) -> None:
    text = ",".join(str(task) for task in tasks)

    assert TaskSelection().convert(text, None, None) == tuple(sorted(tasks))


def test_flag_beats_environment_beats_config_beats_default(tmp_path: Path) -> None:
    path = config(tmp_path, "sm-share = 30\n")

    assert run("m").exit_code == 0
    assert seen["sm_share"] == 100
    run("m", "--config", path)
    assert seen["sm_share"] == 30
    run("m", "--config", path, TUNE_FARM_SM_SHARE="40")
    assert seen["sm_share"] == 40
    run("m", "--config", path, "--sm-share", "50", TUNE_FARM_SM_SHARE="40")
    assert seen["sm_share"] == 50
    assert "config" not in seen
    assert "print_config" not in seen


def test_a_config_file_may_have_a_table_for_each_command(tmp_path: Path) -> None:
    text = 'budget = "1m"\n[run]\nbudget = "2m"\nshape = ["n=4", "m=8"]\n[tasks]\nanything = 1\n'

    assert run("m", TUNE_FARM_CONFIG=config(tmp_path, text)).exit_code == 0
    assert seen["budget"] == 120.0
    assert seen["shape"] == (("n", 4), ("m", 8))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sm_shares = 4\n", "'sm_shares' is no option of 'run'; known: budget, check, format"),
        ("config = 'x'\n", "'config' is no option"),
        ("[runs]\nbudget = 1\n", "[runs] is no command"),
        ("[run]\nx = 1\n", "'x' is no option"),
        ("budget = \n", "cannot be read"),
        ("sm-share = true\n", "True is not a percentage"),
        ("sm-share = 0\n", "(from config file "),
    ],
)
def test_a_bad_config_file_is_one_line_and_exit_2(tmp_path: Path, text: str, says: str) -> None:
    result = run("m", "--config", config(tmp_path, text))

    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_bad_variable_is_named() -> None:
    result = run("m", TUNE_FARM_BUDGET="soon")

    assert result.exit_code == 2
    assert "'soon'" in result.stderr
    assert "environment variable TUNE_FARM_BUDGET" in result.stderr


def test_print_config_tells_where_each_value_came_from(tmp_path: Path) -> None:
    path = config(tmp_path, 'budget = "10m"\n')
    arguments = ["m", "--config", path, "--no-check", "--print-config"]

    table = run(*arguments, TUNE_FARM_SM_SHARE="40").stdout
    rows = [tuple(re.split(r"  +", line)) for line in table.splitlines()]
    assert ("model", "m", "argument") in rows
    assert ("sm-share", "40%", "environment variable TUNE_FARM_SM_SHARE") in rows
    assert ("check", "False", "flag") in rows
    assert ("budget", "600 s", f"config file {path}") in rows
    assert ("format", "table", "default") in rows

    document = json.loads(run(*arguments, "--format", "json").stdout)
    assert document["budget"] == {"value": 600.0, "source": f"config file {path}"}
    assert document["sm-share"] == {"value": 100, "source": "default"}
