"""Measured kernels of a folder with the schema of NeuSight's data, as arrays."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.forecast.kernels import KernelKind
from tune_farm.tuner.predictor.forecast.products import Cut
from tune_farm.tuner.predictor.forecast.sizes import Sizes, instructions_of

Floats = NDArray[np.float64]

#: GPUs whose rows may be fitted to.
TRAIN_GPUS = (
    "NVIDIA A100-PCIE-40GB",
    "Tesla V100-PCIE-32GB",
    "Tesla P100-PCIE-16GB",
    "Tesla T4",
    "Tesla P4",
)
HELDOUT_GPUS = ("NVIDIA H100 80GB HBM3", "NVIDIA L4", "NVIDIA A100 80GB PCIe")

_TWO_INPUTS = {"add", "mul", "pow", "div"}
_VECTOR_KINDS = {"ln": KernelKind.LAYER_NORM, "softmax": KernelKind.SOFTMAX}
_PRODUCT_FILES = {KernelKind.BATCHED_PRODUCT: "bmm", KernelKind.LINEAR: "linear"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Measured kernels of one class."""

    kind: KernelKind
    gpus: NDArray[np.str_]  # (rows,) as the driver names them
    operations: NDArray[np.str_]  # of elementwise kernels
    sizes: Sizes
    seconds: Floats  # of the whole call, as events timed it
    cut: Cut | None  # of products, as the library cut them; rows of NaN where the grid differs

    def __len__(self) -> int:
        return len(self.seconds)

    def take(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> Rows:
        """Some of the rows."""
        cut = self.cut
        return Rows(
            kind=self.kind,
            gpus=self.gpus[which],
            operations=self.operations[which],
            sizes=self.sizes.take(which),
            seconds=self.seconds[which],
            cut=None
            if cut is None
            else Cut(rows=cut.rows[which], columns=cut.columns[which], splits=cut.splits[which]),
        )

    def of(self, gpu: str) -> Rows:
        """Those of one GPU."""
        return self.take(self.gpus == gpu)


def read(path: Path) -> Iterator[dict[str, str]]:
    """Lines of a file of comma-separated values, packed or not."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        yield from csv.DictReader(file)


def product_rows(data: Path, kind: KernelKind, split: str) -> Rows:
    """Products of "train" or "test"; what was not timed is left out."""
    name = f"kernels_{split}_{_PRODUCT_FILES[kind]}.csv.gz"
    items = [each for each in read(data / name) if float(each["latency_ms"]) > 0]

    def column(key: str) -> Floats:
        return np.array([float(each[key] or 0) for each in items])

    batch, rows, depth, columns = (column(key) for key in "BMNK")
    tile_columns, tile_rows = column("tile_x"), column("tile_y")
    blocks = column("grid_x") * column("grid_y") * column("grid_z")
    with np.errstate(divide="ignore", invalid="ignore"):
        tiles = batch * np.ceil(rows / tile_rows) * np.ceil(columns / tile_columns)
        splits = blocks / tiles
    is_known = np.isfinite(splits) & (splits == np.round(splits)) & (splits >= 1)
    return Rows(
        kind=kind,
        gpus=np.array([each["device"] for each in items]),
        operations=np.array([each["op"] for each in items]),
        sizes=Sizes(
            batch=batch,
            rows=rows,
            depth=depth,
            columns=columns,
            moved_bytes=4.0 * batch * (rows * depth + depth * columns + rows * columns),
            instructions=np.ones(len(items)),
        ),
        seconds=column("latency_ms") / 1e3,
        cut=Cut(
            rows=np.where(is_known, tile_rows, np.nan),
            columns=np.where(is_known, tile_columns, np.nan),
            splits=np.where(is_known, splits, np.nan),
        ),
    )


def vector_rows(data: Path, split: str) -> dict[KernelKind, Rows]:
    """Elementwise kernels, softmax and layer norm of "train" or "test"."""
    groups: dict[KernelKind, list[dict[str, str]]] = {
        KernelKind.ELEMENTWISE: [],
        KernelKind.SOFTMAX: [],
        KernelKind.LAYER_NORM: [],
    }
    for each in read(data / f"kernels_{split}_vec.csv.gz"):
        if float(each["latency_ms"]) > 0:
            groups[_VECTOR_KINDS.get(each["op"], KernelKind.ELEMENTWISE)].append(each)
    return {kind: _vector_rows(kind, items) for kind, items in groups.items()}


def _vector_rows(kind: KernelKind, items: list[dict[str, str]]) -> Rows:
    rows, columns = (np.array([float(each[key]) for each in items]) for key in "BH")
    operations = [each["op"] for each in items]
    arrays = np.array([3.0 if name in _TWO_INPUTS else 2.0 for name in operations])
    return Rows(
        kind=kind,
        gpus=np.array([each["device"] for each in items]),
        operations=np.array([plain_operation(name) for name in operations]),
        sizes=Sizes(
            batch=np.ones(len(items)),
            rows=rows,
            depth=np.ones(len(items)),
            columns=columns,
            moved_bytes=4.0 * arrays * rows * columns,
            instructions=instructions_of([plain_operation(name) for name in operations]),
        ),
        seconds=np.array([float(each["latency_ms"]) for each in items]) / 1e3,
        cut=None,
    )


def plain_operation(name: str) -> str:
    """The operation without the mark of having one tensor and one number: "addu" is an "add"."""
    return name[:-1] if name in {"addu", "mulu", "powu", "divu"} else name


def numbers_of(text: str) -> list[list[int]]:
    """Shapes of a cell."""
    found: list[list[int]] = json.loads(text)
    return found
