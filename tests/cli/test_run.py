"""The options of `run` become one configuration; what excludes each other is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tune_farm.cli.app import main
from tune_farm.cli.run import make_config, run
from tune_farm.server.run_directory import OpenMode
from tune_farm.tuner.errors import UsageError


def parsed(*arguments: str) -> dict[str, object]:
    context = run.make_context("run", ["resnet18", *arguments])
    return {
        name: value
        for name, value in context.params.items()
        if name not in ("format", "dry_run", "config", "print_config", "verbose", "quiet")
    }


@pytest.mark.parametrize(
    ("arguments", "mode"),
    [
        ((), OpenMode.NEW),
        (("--resume",), OpenMode.RESUME),
        (("--retry-failed",), OpenMode.RESUME),
        (("--restart",), OpenMode.RESTART),
    ],
)
def test_what_to_do_with_earlier_records(arguments: tuple[str, ...], mode: OpenMode) -> None:
    assert make_config(parsed(*arguments)).mode is mode


@pytest.mark.parametrize(
    "both",
    [("--resume", "--restart"), ("--resume", "--retry-failed"), ("--retry-failed", "--restart")],
)
def test_what_to_do_with_earlier_records_is_one_thing(both: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match=f"{both[0]} and {both[1]} exclude each other"):
        make_config(parsed(*both))


def test_the_memory_is_the_users_cache_a_folder_or_none() -> None:
    assert str(make_config(parsed()).memory).endswith("tune-farm/memory")
    assert make_config(parsed("--memory", "DIR")).memory == Path("DIR")
    assert make_config(parsed("--memory", "DIR", "--no-memory")).memory is None


def test_the_predictor_is_configured() -> None:
    config = make_config(parsed("--predictor", "none", "--keep", "0.1", "--explore", "0.3"))

    assert (config.predictor, config.keep, config.explore) == ("none", 0.1, 0.3)


def test_each_flag_has_its_variable() -> None:
    shown = CliRunner().invoke(
        main,
        ["run", "resnet18", "--print-config", "--format", "json"],
        env={"TUNE_FARM_RESUME": "1"},
    )

    document = json.loads(shown.stdout)
    assert document["resume"]["value"] is True
    assert document["restart"]["value"] is False
    assert "mode" not in document
