"""Errors of whole models, beside those of the predictions that were published with the labels.

For any folder with the schema of NeuSight's data (`model_e2e_labels.csv`, `kernels_train_*`): the
graphs are our own. Cells whose label contradicts itself are counted apart, as are fusion and
several GPUs. "Roofline x constant" has one number from train GPUs: the median of label / roofline.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from tune_farm.sharding.compose import forecast
from tune_farm.sharding.graphs.fusion import fused
from tune_farm.sharding.graphs.operator import Wanted
from tune_farm.sharding.graphs.registry import graph_of
from tune_farm.sharding.parallel import Group, Parallel, group_batch, link_of, together
from tune_farm.tuner.predictor.forecast.catalogue import chip_of
from tune_farm.tuner.predictor.forecast.kernels import Forecaster

LABELS = "model_e2e_labels.csv"
#: Our names of the models in the labels.
MODELS = {
    "bert_large": "bert-large",
    "gpt2_large": "gpt2-large",
    "gpt3_xl": "gpt3-xl",
    "gpt3_27": "gpt3-2.7b",
    "opt_13": "opt-1.3b",
    "switchxl4": "switch-transformer",
}
#: The published predictions, by their columns.
RIVALS = {
    "neusight": "neusight_e2e_ms",
    "roofline": "roofline_e2e_ms",
    "habitat": "habitat_e2e_ms",
    "li": "micro_e2e_ms",
}
_KINDS = {"dp": Parallel.DATA, "tp": Parallel.TENSOR, "pp": Parallel.PIPELINE}
_HELD_OUT, _TRAIN = "heldout", "train_gpu"
_DOUBTFUL = "fw_inconsistent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One measured model on one GPU, or on a group of them."""

    gpu: str
    model: str
    is_training: bool
    sequence: int
    batch: int
    option: str  # "": one GPU, eagerly; "fusion"; "dp4", "tp4", "pp4_1"
    is_held_out: bool
    is_doubtful: bool  # parts and whole of the measurement contradict each other
    seconds: float  # measured
    predicted: Mapping[str, float]  # seconds by rival; ours is "ours"
    low_seconds: float
    high_seconds: float
    kernel_seconds: float | None  # measured kernels, summed

    @property
    def is_covered(self) -> bool:
        """Whether the measured time lies in our interval."""
        return self.low_seconds <= self.seconds <= self.high_seconds

    def error(self, rival: str) -> float | None:
        """|predicted - measured| / measured, if there is a prediction."""
        told = self.predicted.get(rival)
        return None if told is None else abs(told - self.seconds) / self.seconds

    @property
    def deviation(self) -> float:
        """Ours, signed."""
        return self.predicted["ours"] / self.seconds - 1.0


def score(
    data: Path, forecaster: Forecaster, gpus: Collection[str] | None = None
) -> tuple[list[Cell], list[str]]:
    """All cells of a folder, and what was left out with the reason.

    Args:
        data: the folder.
        forecaster: of kernels.
        gpus: by the driver's name; None: all.
    """
    cells, left_out = [], []
    with (data / LABELS).open(newline="") as file:
        for row in csv.DictReader(file):
            if gpus is not None and row["device"] not in gpus:
                continue
            if row["model"] not in MODELS:
                left_out.append(f"{row['device']} {row['graph']}: no graph of {row['model']}")
                continue
            cells.append(_cell(row, forecaster))
    return _with_constant(cells), left_out


def rows_of(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """The table: mean errors in percent by GPU, by model, by mode, and of the special cells."""
    plain = [cell for cell in cells if not cell.option]
    groups: list[tuple[str, list[Cell]]] = [
        *_grouped(plain, lambda cell: f"GPU {cell.gpu}{' *' if cell.is_held_out else ''}"),
        *_grouped(plain, lambda cell: f"model {cell.model}"),
        *_grouped(plain, lambda cell: "training" if cell.is_training else "inference"),
        ("held-out GPUs", [cell for cell in plain if cell.is_held_out]),
        ("held-out, not doubtful", [c for c in plain if c.is_held_out and not c.is_doubtful]),
        ("train GPUs", [cell for cell in plain if not cell.is_held_out]),
        ("doubtful labels", [cell for cell in plain if cell.is_doubtful]),
        *_grouped([c for c in cells if c.option], lambda cell: f"option {cell.option}"),
    ]
    return [_row(name, members) for name, members in groups if members]


def results_of(cells: Sequence[Cell]) -> dict[str, float]:
    """The numbers that a check looks for, as fractions."""
    plain = [cell for cell in cells if not cell.option]
    results: dict[str, float] = {}
    for name, is_held_out in (("heldout", True), ("train_gpu", False)):
        part = [cell for cell in plain if cell.is_held_out == is_held_out]
        for rival in ("ours", *RIVALS, "roofline_constant"):
            errors = _errors(_compared(part), rival)
            if errors:
                key = f"{name}_e2e_error" + ("" if rival == "ours" else f"_{rival}")
                results[key] = fmean(errors)
        sound = _errors([cell for cell in part if not cell.is_doubtful], "ours")
        if sound:
            results[f"{name}_e2e_worst_sound"] = max(sound)
        if part:
            results[f"{name}_e2e_coverage"] = fmean(cell.is_covered for cell in part)
    return results


def _cell(row: Mapping[str, str], forecaster: Forecaster) -> Cell:
    option, batch = row["option"], int(row["batch"])
    seconds, low, high = _forecast(row, forecaster)
    published = {
        name: float(row[column]) / 1e3 for name, column in RIVALS.items() if row.get(column)
    }
    sums = [row.get(f"perop_sum_{part}_ms") for part in ("fw", "bw")]
    return Cell(
        gpu=row["device"],
        model=row["model"],
        is_training=row["mode"] == "train",
        sequence=int(row["seq"]),
        batch=batch,
        option=option,
        is_held_out=row["gpu_role"].startswith(_HELD_OUT),
        is_doubtful=row["label_flag"] == _DOUBTFUL,
        seconds=float(row["e2e_ms"]) / 1e3,
        predicted={"ours": seconds, **published},
        low_seconds=low,
        high_seconds=high,
        kernel_seconds=sum(float(each) for each in sums if each) / 1e3 if sums[0] else None,
    )


def _forecast(row: Mapping[str, str], forecaster: Forecaster) -> tuple[float, float, float]:
    """Ours, with its interval."""
    chip, option, batch = chip_of(row["device"]), row["option"], int(row["batch"])
    group = None
    ways = 1
    if option[:2] in _KINDS:
        gpus, _, microbatches = option[2:].partition("_")
        group = Group(
            kind=_KINDS[option[:2]],
            gpus=int(gpus),
            microbatches=int(microbatches or 1),
            link_bytes_per_second=link_of(chip),
        )
        batch = group_batch(batch, group.kind, group.gpus, group.microbatches)
        ways = group.gpus if group.kind is Parallel.TENSOR else 1
    wanted = Wanted(
        batch=batch, sequence=int(row["seq"]), training=row["mode"] == "train", ways=ways
    )
    graph = graph_of(MODELS[row["model"]], wanted)
    one = forecast(fused(graph) if option == "fusion" else graph, chip, forecaster)
    if group is None:
        return one.seconds, one.low_seconds, one.high_seconds
    joint = together(one, graph, group)
    return joint.seconds, joint.low_seconds, joint.high_seconds


def _with_constant(cells: list[Cell]) -> list[Cell]:
    """The same, with the prediction of roofline x constant."""
    ratios = [
        cell.seconds / cell.predicted["roofline"]
        for cell in cells
        if not cell.is_held_out and not cell.option and "roofline" in cell.predicted
    ]
    if not ratios:
        return cells
    factor = median(ratios)
    return [
        replace(
            cell,
            predicted={
                **cell.predicted,
                **(
                    {"roofline_constant": factor * cell.predicted["roofline"]}
                    if "roofline" in cell.predicted
                    else {}
                ),
            },
        )
        for cell in cells
    ]


def _compared(cells: Iterable[Cell]) -> list[Cell]:
    """Those that NeuSight has a prediction of: what is compared is compared on equal cells."""
    return [cell for cell in cells if "neusight" in cell.predicted]


def _grouped(cells: Iterable[Cell], key: Callable[[Cell], str]) -> list[tuple[str, list[Cell]]]:
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return sorted(groups.items())


def _errors(cells: Iterable[Cell], rival: str) -> list[float]:
    return [each for each in (cell.error(rival) for cell in cells) if each is not None]


def _row(name: str, cells: Sequence[Cell]) -> dict[str, Any]:
    compared = _compared(cells)
    ours = _errors(cells, "ours")
    row: dict[str, Any] = {
        "cells": name,
        "n": len(cells),
        "ours": 100 * fmean(ours),
        "worst": 100 * max(ours),
        "mean_signed": 100 * fmean(cell.deviation for cell in cells),
        "in_interval": 100 * fmean(cell.is_covered for cell in cells),
        "n_compared": len(compared),
    }
    for rival in ("ours", *RIVALS, "roofline_constant"):
        errors = _errors(compared, rival)
        row["ours_compared" if rival == "ours" else rival] = 100 * fmean(errors) if errors else None
    summed = [abs(cell.kernel_seconds / cell.seconds - 1) for cell in cells if cell.kernel_seconds]
    row["measured_kernels"] = 100 * fmean(summed) if summed else None
    return row
