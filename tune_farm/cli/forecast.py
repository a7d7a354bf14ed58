"""`tune-farm forecast MODEL --gpu NAME`: how fast a model will run on a GPU that is not at hand."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tune_farm.cli.options import (
    Configured,
    Count,
    Percent,
    ShapeBinding,
    configured,
    listing_format,
)
from tune_farm.tuner.errors import UsageError

if TYPE_CHECKING:
    from tune_farm.cli.forecast_output import Forecast
    from tune_farm.sharding.graphs.operator import Graph, Wanted
    from tune_farm.sharding.parallel import Group
    from tune_farm.tuner.predictor.forecast.calibration import CalibratedForecaster
    from tune_farm.tuner.predictor.forecast.chip import Chip
    from tune_farm.tuner.predictor.forecast.kernels import Forecaster

_LOG = logging.getLogger(__name__)


@click.command(
    cls=Configured,
    name="forecast",
    epilog="Example: tune-farm forecast gpt3-xl --gpu h100,l4 --batch 2 --seq 2048",
)
@click.argument("model")
@click.option(
    "--gpu",
    required=True,
    metavar="NAME[,…]",
    help="GPUs of the catalogue, MIG instances such as a100/2g.10gb, or files like its own.",
)
@click.option("--batch", type=Count(), default=1, show_default=True, help="Samples in one step.")
@click.option(
    "--seq",
    type=Count(),
    default=128,
    show_default=True,
    help="Tokens of one sample, for models that have a sequence.",
)
@click.option(
    "--shape",
    type=ShapeBinding(),
    multiple=True,
    metavar="NAME=SIZE",
    help="Size of a named dimension of an ONNX file's inputs; may be repeated.",
)
@click.option(
    "--mode",
    type=click.Choice(["inference", "training"]),
    default="inference",
    show_default=True,
    help="Training is forward, backward, and gradients added up.",
)
@click.option(
    "--sm-share",
    type=Percent(),
    default=100,
    show_default=True,
    metavar="PERCENT",
    help="Part of each GPU's SMs; memory and its bandwidth stay whole.",
)
@click.option("--fuse", is_flag=True, help="As a compiler that fuses runs it; for inference.")
@click.option(
    "--parallel",
    type=click.Choice(["none", "data", "tensor", "pipeline"]),
    default="none",
    show_default=True,
    help="How training is divided among --gpus.",
)
@click.option("--gpus", type=Count(), default=4, show_default=True, help="GPUs of a group.")
@click.option("--microbatches", type=Count(), default=1, show_default=True, help="Of a pipeline.")
@click.option(
    "--link",
    type=float,
    metavar="GB/S",
    help="Of one GPU to the others, both directions together; NVLink's if left out.",
)
@click.option(
    "--calibrate",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Kernels measured on the GPU, comma-separated (see README.md); they correct its forecast.",
)
@click.option("--operators", is_flag=True, help="List each operator in place of their classes.")
@listing_format
@configured
def forecast(
    format: str,  # noqa: A002 - named by its option
    model: str,
    gpu: str,
    batch: int,
    seq: int,
    shape: tuple[tuple[str, int], ...],
    mode: str,
    sm_share: int,
    fuse: bool,
    parallel: str,
    gpus: int,
    microbatches: int,
    link: float | None,
    calibrate: Path | None,
    operators: bool,
) -> None:
    """Forecast the latency of MODEL on GPUs that need not be here: a name or an .onnx file.

    Times are for float32 outside tensor cores, as PyTorch runs a model eagerly. An interval holds
    nine of ten. EXTRAPOLATED marks what no measurement stands behind.
    """
    from tune_farm.cli.forecast_output import Settings, write_forecasts
    from tune_farm.sharding.graphs.operator import Wanted
    from tune_farm.tuner.predictor.forecast.calibration import Gain
    from tune_farm.tuner.predictor.forecast.catalogue import chip_of
    from tune_farm.tuner.predictor.forecast.shipped import ShippedForecaster

    wholes = [chip_of(name.strip()) for name in gpu.split(",") if name.strip()]
    chips = [whole.share(sm_share) for whole in wholes]
    if not chips:
        raise UsageError("no GPU is named", "give --gpu, such as h100,l4")
    wanted = Wanted(batch=batch, sequence=seq, training=mode == "training")
    groups = _groups(chips, wanted, parallel, gpus, microbatches, link)
    graph = _graph(model, wanted, shape, fuse, groups[0])
    forecaster: Forecaster = ShippedForecaster()
    gains: tuple[Gain, ...] = ()
    if calibrate is not None:
        calibrated = _calibrated(forecaster, calibrate, wholes)
        forecaster, gains = calibrated, calibrated.gains
    settings = Settings(
        graph=graph, batch=batch, fused=fuse, by_operator=operators, calibration=gains
    )
    found = [_forecast(graph, *each, forecaster) for each in zip(chips, groups, strict=True)]
    for each in found:
        _warn_of_memory(each, groups[0])
    write_forecasts(found, settings, format)


def _calibrated(base: Forecaster, path: Path, chips: Sequence[Chip]) -> CalibratedForecaster:
    from tune_farm.tuner.predictor.forecast.calibration import CalibratedForecaster
    from tune_farm.tuner.predictor.forecast.measured import read_measured

    if len(chips) != 1:
        raise UsageError(
            f"kernels are measured on one GPU, and {len(chips)} are named", "give --gpu one name"
        )
    return CalibratedForecaster(base, read_measured(path), chips[0])


def _groups(
    chips: list[Chip],
    wanted: Wanted,
    parallel: str,
    gpus: int,
    microbatches: int,
    link: float | None,
) -> list[Group | None]:
    """The group that each chip would be one of."""
    from tune_farm.sharding.parallel import Group, Parallel, link_of

    if parallel == "none":
        return [None] * len(chips)
    if not wanted.training:
        raise UsageError("only training is divided among GPUs", "add --mode training")
    if gpus < 2:
        raise UsageError("a group has at least 2 GPUs", "give --gpus")
    if link is not None and not 0 < link < float("inf"):
        raise UsageError(f"a link of {link:g} GB/s is out of range", "give one above 0")
    return [
        Group(
            kind=Parallel(parallel),
            gpus=gpus,
            microbatches=microbatches,
            link_bytes_per_second=link_of(chip) if link is None else 1e9 * link,
        )
        for chip in chips
    ]


def _graph(
    model: str,
    wanted: Wanted,
    shape: tuple[tuple[str, int], ...],
    fuse: bool,
    group: Group | None,
) -> Graph:
    """The graph of what one GPU runs."""
    from dataclasses import replace

    from tune_farm.sharding.graphs.fusion import fused
    from tune_farm.sharding.graphs.registry import graph_of, is_file
    from tune_farm.sharding.parallel import Parallel, group_batch

    if group is not None:
        if is_file(model):
            cause = f"{model}: a file's batch is fixed, so its training is not divided"
            raise UsageError(cause, "leave out --parallel")
        batch = group_batch(wanted.batch, group.kind, group.gpus, group.microbatches)
        ways = group.gpus if group.kind is Parallel.TENSOR else 1
        wanted = replace(wanted, batch=batch, ways=ways)
    graph = graph_of(model, wanted, shape)
    return fused(graph) if fuse else graph


def _forecast(graph: Graph, chip: Chip, group: Group | None, forecaster: Forecaster) -> Forecast:
    from tune_farm.cli.forecast_output import Forecast
    from tune_farm.sharding.compose import forecast as composed
    from tune_farm.sharding.parallel import together

    one = composed(graph, chip, forecaster)
    joint = None if group is None else together(one, graph, group)
    return Forecast(one=one, group=group, joint=joint, parameters=graph.parameters)


def _warn_of_memory(forecast: Forecast, group: Group | None) -> None:
    """Say it where weights, or weights and gradients, alone are more than the GPU holds."""
    from tune_farm.sharding.parallel import Parallel

    chip = forecast.one.chip
    is_training = forecast.one.backward.launches > 0
    size = 4.0 * forecast.parameters * (2 if is_training else 1)
    if group is not None and group.kind is Parallel.PIPELINE:
        size /= group.gpus
    if size > chip.memory_bytes:
        what = "weights and gradients" if is_training else "weights"
        _LOG.warning(
            "%s holds %.1f GB, but the %s alone take %.1f GB: the model would not fit",
            chip.name,
            chip.memory_bytes / 1e9,
            what,
            size / 1e9,
        )
