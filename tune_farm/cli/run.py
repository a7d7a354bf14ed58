"""`tune-farm run MODEL`: tune a model and show what it gained."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tune_farm.cli.model_options import model_options
from tune_farm.cli.options import (
    AutoOr,
    Configured,
    Count,
    Duration,
    Fraction,
    Percent,
    TaskSelection,
    configured,
    listing_format,
)

if TYPE_CHECKING:  # what these import takes seconds, and --help must not wait for it
    from tune_farm.server.config import RunConfig
    from tune_farm.server.place import Place
    from tune_farm.server.report.summary import Summary

#: Exit codes above it are 128 + the number of a signal.
_SIGNALLED = 128
_BUDGET_OVER = 124
_MODES = ("--resume", "--retry-failed", "--restart")


@click.command(
    cls=Configured, name="run", epilog="Example: tune-farm run resnet50 --sm-share 40 --budget 10m"
)
@model_options
@click.option(
    "--sm-share",
    type=AutoOr(Percent()),
    default=100,
    show_default=True,
    metavar="PERCENT",
    help="One client's share: of a GPU's SMs, or of a CPU's cores, rounded down; auto: what was "
    "set for this job, else all.",
)
@click.option(
    "--clients",
    type=AutoOr(Count()),
    default="auto",
    show_default=True,
    help="How many clients; auto: as many as the share allows.",
)
@click.option(
    "--create-mig",
    is_flag=True,
    help="Create a MIG instance for each of --clients N, for as long as the run takes; shows what "
    "it creates first. The GPU has to be in MIG mode, and you need the permission.",
)
@click.option(
    "--static-partitions",
    is_flag=True,
    help="Divide a GPU into SMs that are one client's alone (MPS of CUDA 13.1 or newer), not by "
    "active thread percentages.",
)
@click.option(
    "--oversubscribe",
    is_flag=True,
    help="Let the shares of one GPU add up to more than all of it: more candidates a second, and "
    "timings that disturb each other. NVIDIA recommends up to twice, for throughput alone.",
)
@click.option(
    "--device", default="auto", show_default=True, help="auto, cpu, cuda:N, GPU-…, MIG-…, sim:NAME"
)
@click.option("--target", help="TVM target tag or JSON; this device's if left out.")
@click.option(
    "--effort",
    type=click.Choice(["quick", "standard", "full"]),
    default="standard",
    show_default=True,
    help="Trials a task (16, 64, 256) where neither a budget nor a number of trials is given.",
)
@click.option("--budget", type=Duration(), help="Time from the first candidate to the last.")
@click.option("--trials", type=Count(), help="Candidates of the whole run at most.")
@click.option("--trials-per-task", type=Count(), help="Candidates of each task at most.")
@click.option("--tasks", type=TaskSelection(), help="Tasks to tune, as `tune-farm tasks` counts.")
@click.option(
    "--strategy",
    type=click.Choice(["draft", "metaschedule", "random"]),
    default="draft",
    show_default=True,
    help="Where candidates come from.",
)
@click.option(
    "--predictor",
    type=click.Choice(["tile", "none"]),
    default="tile",
    show_default=True,
    help="What ranks drafts before they are measured.",
)
@click.option(
    "--keep",
    type=Fraction(),
    default=0.2,
    show_default=True,
    help="Part of the drafts that may be measured.",
)
@click.option(
    "--explore",
    type=Fraction(),
    default=0.05,
    show_default=True,
    help="Part of what is measured that is taken from the rejected drafts, as an audit.",
)
@click.option(
    "--population",
    type=Count(),
    default=64,
    show_default=True,
    help="Schedules in a generation of the evolutionary search.",
)
@click.option(
    "--winograd/--no-winograd",
    default=True,
    show_default=True,
    help="Winograd's algorithm for 3x3 convolutions where it is measured to be faster; it rounds "
    "more, so --no-fast-math rules it out.",
)
@click.option(
    "--memory",
    type=click.Path(path_type=Path),
    help="Folder of what earlier runs taught the predictor; the user's cache if left out.",
)
@click.option("--no-memory", is_flag=True, help="Neither begin with it nor add to it.")
@click.option(
    "--check/--no-check",
    default=True,
    show_default=True,
    help="Compare outputs of candidates and of the tuned model with the untuned ones'.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the search.")
@click.option(
    "--build-timeout", type=Duration(), default="10s", show_default=True, help="Of one candidate."
)
@click.option(
    "--run-timeout",
    type=AutoOr(Duration()),
    default="auto",
    show_default=True,
    help="Of one candidate; auto: from its operator's baseline.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Run directory.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option(
    "--retry-failed", is_flag=True, help="Go on with the run in --out; first try again what failed."
)
@click.option("--restart", is_flag=True, help="Begin the run in --out again.")
@click.option("--address", help="Ray cluster to join instead of a private one.")
@click.option("--allow-partial", is_flag=True, help="Tasks without a result are no failure.")
@click.option("--dry-run", is_flag=True, help="Show what would be tuned, and stop.")
@listing_format
@configured
def run(format: str, dry_run: bool, **options: Any) -> int:  # noqa: A002 - named by its option
    """Tune the operators of MODEL: a built-in name or an .onnx file."""
    from tune_farm.cli.summary_output import write_summary
    from tune_farm.server.place import mig_geometry, open_place, wish_of
    from tune_farm.server.report.screen import Screen
    from tune_farm.server.run import run as tune
    from tune_farm.server.run_directory import check_out

    config = make_config(options)
    if dry_run:
        check_out(config.out, config.mode)
        wish = wish_of(config)
        if wish.creates_mig:  # nothing is created to show what would be
            click.echo("\n".join(mig_geometry(wish).lines()))
            return 0
        with open_place(wish) as place:
            _show_plan(config, place)
        return 0
    summary = tune(config, say=_say, screen=Screen())
    write_summary(summary, format)
    code = summary.exit_code or 0
    if code == _BUDGET_OVER:
        _say("the budget was over before anything was measured; give more with --budget")
    if code > _SIGNALLED:
        _say(f"interrupted; every record is safe; to go on: {_resume_command(summary)}")
    return code


def make_config(options: Mapping[str, Any]) -> RunConfig:
    """Turn the command's options into a configuration.

    Raises:
        UsageError: options that exclude each other, or a value that none of them takes.
    """
    from tune_farm.server.config import RunConfig
    from tune_farm.server.run_directory import OpenMode
    from tune_farm.sharding.layout import Layout
    from tune_farm.sharding.models.spec import ModelSpec
    from tune_farm.tuner.errors import UsageError

    values = dict(options)
    resume, restart, retry = values.pop("resume"), values.pop("restart"), values["retry_failed"]
    asked = [mode for mode, is_on in zip(_MODES, (resume, retry, restart), strict=True) if is_on]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} exclude each other", "give one of them")
    going_on = OpenMode.RESUME if resume or retry else OpenMode.NEW
    mode = OpenMode.RESTART if restart else going_on
    spec = ModelSpec(
        model=values.pop("model"),
        batch=values.pop("batch"),
        sequence=values.pop("seq"),
        shapes=tuple(values.pop("shape")),
    )
    layout, dtype = values.pop("layout"), values.pop("dtype")
    memory = None if values.pop("no_memory") else values["memory"] or _usual_memory()
    return RunConfig(
        spec=spec,
        layout=None if layout == "auto" else Layout(layout),
        dtype=None if dtype == "auto" else dtype,
        sm_share_percent=values.pop("sm_share"),
        budget_seconds=values.pop("budget"),
        build_timeout_seconds=values.pop("build_timeout"),
        run_timeout_seconds=values.pop("run_timeout"),
        mode=mode,
        **values | {"memory": memory},
    )


def _usual_memory() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("tune-farm") / "memory"


def _show_plan(config: RunConfig, place: Place) -> None:
    from tune_farm.server.form_choice import Wanted
    from tune_farm.server.preparation import prepare

    prepared = prepare(
        config.spec,
        device=place.device,
        machine=place.machine,
        target=config.target,
        wanted=Wanted(
            layout=config.layout,
            fast_math=config.fast_math,
            winograd=config.winograd,
            dtype=config.dtype,
        ),
        selection=config.tasks,
        with_weights=False,
    )
    click.echo(place.headline)
    click.echo(f"target {prepared.target_json}")
    click.echo(f"{len(prepared.selected)} of {len(prepared.extraction.tasks)} tasks would be tuned")
    if prepared.found.tasks:
        variants = len(prepared.found.alternatives)
        click.echo(f"{len(prepared.found.tasks)} more for other variants of {variants} of them")


def _resume_command(summary: Summary) -> str:
    arguments = [argument for argument in sys.argv[1:] if argument not in _MODES]
    if "--out" not in arguments:
        arguments += ["--out", summary.run_directory]
    return shlex.join(["tune-farm", *arguments, "--resume"])


def _say(line: str) -> None:
    click.echo(line, err=True)
