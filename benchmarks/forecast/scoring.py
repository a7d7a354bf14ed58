"""How far forecasts of kernels are from what was measured, by class and GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.forecast.data import Rows
from benchmarks.forecast.fitting import call_seconds
from benchmarks.forecast.nodes import Node
from tune_farm.tuner.predictor.forecast.catalogue import chip_of
from tune_farm.tuner.predictor.forecast.chip import Chip
from tune_farm.tuner.predictor.forecast.kernels import Forecasts, Kernel, KernelKind
from tune_farm.tuner.predictor.forecast.laws import roof_seconds
from tune_farm.tuner.predictor.forecast.shipped import ShippedForecaster
from tune_farm.tuner.predictor.forecast.trained import Host, trained

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Kernels of one class on one GPU; arrays of shape (kernels,), seconds."""

    source: str  # "rows" or "nodes"
    kind: KernelKind
    gpu: str
    measured: Floats
    predicted: Floats
    low: Floats
    high: Floats
    roofline: Floats
    neusight: Floats | None  # none of rows are shipped
    is_outside: NDArray[np.bool_]

    def row(self) -> dict[str, Any]:
        """For the table."""
        errors = percent(self.predicted, self.measured)
        inside = (self.low <= self.measured) & (self.measured <= self.high)
        told = None
        if self.neusight is not None and (self.neusight > 0).any():
            told = float(percent(self.neusight, self.measured)[self.neusight > 0].mean())
        return {
            "source": self.source,
            "class": self.kind.value,
            "gpu": self.gpu,
            "n": len(self.measured),
            "ours_%": float(errors.mean()),
            "median_%": float(np.median(errors)),
            "p90_%": float(np.percentile(errors, 90)),
            "worst_x": float(np.exp(np.abs(np.log(self.predicted / self.measured)).max())),
            "in_interval_%": 100.0 * float(inside.mean()),
            "outside": int(self.is_outside.sum()),
            "roofline_%": float(percent(self.roofline, self.measured).mean()),
            "neusight_%": told,
        }


def percent(predicted: Floats, measured: Floats) -> Floats:
    """Absolute errors in percent of the measured."""
    return np.asarray(100.0 * np.abs(predicted - measured) / measured)


def hosts_of(kind: KernelKind, chip: Chip, forecaster: ShippedForecaster) -> tuple[Host, Host]:
    """What is told of a call, and the most of it: a GPU without rows may stand in any host."""
    known = trained().hosts[kind]
    told = forecaster.host(kind, chip)
    if chip.name in known:
        return told, told
    return told, max(known.values(), key=lambda each: each.call_seconds + each.gap_seconds)


def score_rows(rows: Rows, gpu: str, forecaster: ShippedForecaster) -> Scored:
    """Rows of one GPU, as kernels would be asked for: by their shapes alone."""
    own = rows.of(gpu)
    chip = chip_of(gpu)
    told = forecaster.predict(kernels_of_rows(own), chip)
    host, slow = hosts_of(rows.kind, chip, forecaster)
    return Scored(
        source="rows",
        kind=rows.kind,
        gpu=gpu,
        measured=own.seconds,
        predicted=call_seconds(told.device_seconds, host),
        low=call_seconds(told.low_seconds, host),
        high=call_seconds(told.high_seconds, slow),
        roofline=roof_seconds(rows.kind, own.sizes, chip),
        neusight=None,
        is_outside=told.is_outside,
    )


def kernels_of_rows(rows: Rows) -> list[Kernel]:
    """As a forecaster is asked."""
    s = rows.sizes
    table = np.stack([s.batch, s.rows, s.depth, s.columns, s.moved_bytes], axis=1).astype(np.int64)
    return [
        Kernel(
            kind=rows.kind,
            batch=batch,
            rows=height,
            depth=depth,
            columns=columns,
            moved_bytes=moved,
            operation=operation,
        )
        for (batch, height, depth, columns, moved), operation in zip(
            table.tolist(), rows.operations.tolist(), strict=True
        )
    ]


def score_nodes(
    nodes: Sequence[Node], kind: KernelKind, gpu: str, forecaster: ShippedForecaster
) -> Scored | None:
    """Nodes of one class on one GPU, of inference where there are such; None without any.

    Elementwise nodes that NeuSight predicts as nothing are left out, as the data's page does.
    """
    own = [each for each in nodes if each.gpu == gpu and each.kind is kind]
    own = [each for each in own if each.is_inference] or own
    if kind is KernelKind.ELEMENTWISE:
        own = [each for each in own if each.neusight_seconds > 0]
    if not own:
        return None
    told = forecaster.predict([kernel for node in own for kernel in node.kernels], chip_of(gpu))
    ends = np.cumsum([0, *(len(node.kernels) for node in own)])[:-1]
    summed = Forecasts(
        device_seconds=np.add.reduceat(told.device_seconds, ends),
        low_seconds=np.add.reduceat(told.low_seconds, ends),
        high_seconds=np.add.reduceat(told.high_seconds, ends),
        is_outside=np.logical_or.reduceat(told.is_outside, ends),
    )
    host, slow = hosts_of(kind, chip_of(gpu), forecaster)
    return Scored(
        source="nodes",
        kind=kind,
        gpu=gpu,
        measured=np.array([each.seconds for each in own]),
        predicted=call_seconds(summed.device_seconds, host),
        low=call_seconds(summed.low_seconds, host),
        high=call_seconds(summed.high_seconds, slow),
        roofline=np.array([each.roofline_seconds for each in own]),
        neusight=np.array([each.neusight_seconds for each in own]),
        is_outside=summed.is_outside,
    )
