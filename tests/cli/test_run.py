"""The options of `run` become one configuration; what excludes each other is refused."""

from __future__ import annotations

import json

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
    [((), OpenMode.NEW), (("--resume",), OpenMode.RESUME), (("--restart",), OpenMode.RESTART)],
)
def test_what_to_do_with_earlier_records(arguments: tuple[str, ...], mode: OpenMode) -> None:
    assert make_config(parsed(*arguments)).mode is mode


def test_resume_and_restart_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        make_config(parsed("--resume", "--restart"))


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
