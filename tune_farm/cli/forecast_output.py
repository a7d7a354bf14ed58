"""How forecasts are shown: a table for each GPU, one JSON document, or CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import click

from tune_farm.cli.options import write_listing
from tune_farm.sharding.compose import ModelForecast, Seconds
from tune_farm.sharding.graphs.operator import Graph
from tune_farm.sharding.parallel import Group, GroupForecast
from tune_farm.tuner.predictor.forecast.calibration import Gain

DTYPE = "float32"
_MARK = "EXTRAPOLATED"
_LAUNCHES = "launches and waits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Of one GPU, and of the group that it is one of."""

    one: ModelForecast
    group: Group | None
    joint: GroupForecast | None
    parameters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the forecasts are of, and how they are listed."""

    graph: Graph
    batch: int  # of all GPUs of a group
    fused: bool
    by_operator: bool
    calibration: tuple[Gain, ...] = ()  # by kernels measured on the GPU

    @property
    def mode(self) -> str:
        """As the option has it."""
        return "training" if self.graph.training else "inference"


def write_forecasts(forecasts: Sequence[Forecast], settings: Settings, form: str) -> None:
    """Write all of them to stdout, as "table", "json" or "csv"."""
    if form == "json":
        click.echo(json.dumps(_document(forecasts, settings), indent=2))
        return
    if form == "csv":
        rows = [
            {"gpu": each.one.chip.name, **row}
            for each in forecasts
            for row in _rows(each, settings.by_operator)
        ]
        write_listing(rows, "csv")
        return
    for index, each in enumerate(forecasts):
        click.echo(("\n" if index else "") + _title(each.one, settings))
        write_listing([_shown(row) for row in _rows(each, settings.by_operator)], "table")
        for line in _notes(each):
            click.echo(line)
    for gain in settings.calibration:
        click.echo(_calibrated(gain))


def _document(forecasts: Sequence[Forecast], settings: Settings) -> dict[str, object]:
    graph = settings.graph
    return {
        "model": graph.name,
        "mode": settings.mode,
        "batch": None if graph.batch is None else settings.batch,
        "sequence": graph.sequence,
        "dtype": DTYPE,
        "fused": settings.fused,
        "parameters": graph.parameters,
        "calibration": [{**asdict(each), "kind": each.kind.value} for each in settings.calibration],
        "forecasts": [_described(each) for each in forecasts],
    }


def _calibrated(gain: Gain) -> str:
    told = f"calibrated: {gain.kind.value} x {gain.factor:.2f} by {gain.kernels} measured kernels"
    if gain.error_after is None:
        return f"{told}, too few to tell what that gains"
    return (
        f"{told}: error {100 * gain.error_before:.1f}% before, "
        f"{100 * gain.error_after:.1f}% after, each left out in turn"
    )


def _described(forecast: Forecast) -> dict[str, object]:
    one = forecast.one
    return {
        "gpu": one.chip.name,
        "sms": one.chip.sms,
        "total_sms": one.chip.total_sms,
        "seconds": one.seconds,
        "low_seconds": one.low_seconds,
        "high_seconds": one.high_seconds,
        "roofline_seconds": one.device.roofline,
        "forward_seconds": one.forward.seconds,
        "backward_seconds": one.backward.seconds,
        "kernels": one.device.kernels,
        "extrapolated": one.device.is_extrapolated,
        "classes": _class_rows(one),
        "operators": _operator_rows(one),
        "group": _group(forecast),
    }


def _group(forecast: Forecast) -> dict[str, object] | None:
    group, joint = forecast.group, forecast.joint
    if group is None or joint is None:
        return None
    return {
        "parallel": group.kind.value,
        "gpus": group.gpus,
        "microbatches": group.microbatches,
        "link_bytes_per_second": group.link_bytes_per_second,
        "seconds": joint.seconds,
        "low_seconds": joint.low_seconds,
        "high_seconds": joint.high_seconds,
        "exchange_seconds": joint.exchange_seconds,
    }


def _rows(forecast: Forecast, by_operator: bool) -> list[dict[str, object]]:
    """Parts, then the total; equal keys."""
    one = forecast.one
    rows = _operator_rows(one) if by_operator else _class_rows(one)
    whole = Seconds(
        expected=one.seconds,
        low=one.low_seconds,
        high=one.high_seconds,
        roofline=one.device.roofline,
        kernels=one.device.kernels,
        is_extrapolated=one.device.is_extrapolated,
    )
    name: dict[str, object] = {"class": "total"}
    if by_operator:
        name = {"block": "", "operator": "total", "times": 1}
    return [*rows, _row(name, whole, one.seconds)]


def _class_rows(one: ModelForecast) -> list[dict[str, object]]:
    ordered = sorted(one.classes.items(), key=lambda item: -item[1].expected)
    rows = [_row({"class": name}, seconds, one.seconds) for name, seconds in ordered]
    return [*rows, _row({"class": _LAUNCHES}, _launches(one), one.seconds)]


def _operator_rows(one: ModelForecast) -> list[dict[str, object]]:
    rows = [
        _row(
            {"block": each.block, "operator": each.name, "times": each.times},
            each.seconds,
            one.seconds,
        )
        for each in one.operators
        if each.seconds.kernels
    ]
    name = {"block": "", "operator": _LAUNCHES, "times": 1}
    return [*rows, _row(name, _launches(one), one.seconds)]


def _launches(one: ModelForecast) -> Seconds:
    """What the parts of a model don't show: gaps, the host, waits."""
    extra = one.launch_seconds
    return Seconds(expected=extra, low=extra, high=extra)


def _row(name: dict[str, object], seconds: Seconds, whole: float) -> dict[str, object]:
    return {
        **name,
        "kernels": seconds.kernels,
        "seconds": seconds.expected,
        "low_seconds": seconds.low,
        "high_seconds": seconds.high,
        "percent": round(100 * seconds.expected / whole, 1),
        "roofline_seconds": seconds.roofline,
        "note": _MARK if seconds.is_extrapolated else "",
    }


def _shown(row: dict[str, object]) -> dict[str, object]:
    """A row for people: milliseconds."""
    shown: dict[str, object] = {}
    for key, value in row.items():
        if key.endswith("seconds") and isinstance(value, float):
            shown[f"{key.removesuffix('seconds')}ms"] = _milliseconds(value)
        else:
            shown[key] = value
    return shown


def _milliseconds(seconds: float) -> str:
    """Four digits, of those behind the point at most four."""
    value = 1e3 * seconds
    if value < 1:
        return f"{value:.4f}"
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def _title(one: ModelForecast, settings: Settings) -> str:
    chip, graph = one.chip, settings.graph
    batch = "" if graph.batch is None else f", batch {graph.batch}"
    if graph.batch not in (None, settings.batch):
        batch += f" at a time of {settings.batch}"
    sequence = "" if graph.sequence is None else f", sequence {graph.sequence}"
    sms = f"{chip.sms} SMs" if chip.sms == chip.total_sms else f"{chip.sms} of {chip.total_sms} SMs"
    fused = ", fused" if settings.fused else ""
    return (
        f"{chip.name} ({sms}): {graph.name}, {settings.mode}{batch}{sequence}, "
        f"{DTYPE} outside tensor cores{fused}"
    )


def _notes(forecast: Forecast) -> list[str]:
    one, group, joint = forecast.one, forecast.group, forecast.joint
    lines = []
    if one.backward.launches:
        forward, backward = (_milliseconds(each.seconds) for each in (one.forward, one.backward))
        lines.append(f"forward {forward} ms, backward {backward} ms")
    if group is not None and joint is not None:
        low, high = _milliseconds(joint.low_seconds), _milliseconds(joint.high_seconds)
        lines.append(
            f"{group.gpus} GPUs, {group.kind.value} parallel: {_milliseconds(joint.seconds)} ms "
            f"({low} to {high}), of which {_milliseconds(joint.exchange_seconds)} ms exchange"
        )
    if one.device.is_extrapolated:
        lines.append(f"{_MARK}: no measurement of such kernels stands behind these numbers")
    return lines
