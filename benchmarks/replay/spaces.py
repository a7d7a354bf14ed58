"""Recorded spaces: every configuration's parameters, time and cost, as arrays.

The files are Kernel Tuner caches: one JSON object with each configuration that was measured.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.replay.convolution import convolution_tiles, is_guarded
from benchmarks.replay.devices import DEVICES
from benchmarks.replay.gemm import gemm_tiles
from tune_farm.tuner.predictor.gpu_tiles import GpuTiles
from tune_farm.tuner.predictor.machine import Gpu

Floats = NDArray[np.float64]

#: What a configuration cost whoever recorded it: the steps that a tuner would go through, too.
_COSTS = ("compile_time", "verification_time", "benchmark_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """One kernel on one device; all arrays have a row for each configuration."""

    name: str
    gpu: Gpu
    tiles: GpuTiles
    parameters: Floats  # (configurations, parameters), those that vary
    #: (configurations, decisions): those parameters as powers of two, and what they switch on.
    decisions: Floats
    seconds: Floats  # (configurations,), infinite where it failed
    cost_seconds: Floats  # (configurations,) charged for compiling, verifying, measuring it

    @property
    def best_seconds(self) -> float:
        """The fastest recorded."""
        return float(self.seconds.min())

    @property
    def top(self) -> NDArray[np.int64]:
        """The fastest 1% of what ran."""
        count = max(1, round(0.01 * int(np.isfinite(self.seconds).sum())))
        return np.argsort(self.seconds, kind="stable")[:count]

    def within(self, part: float) -> NDArray[np.bool_]:
        """Configurations at most so much slower than the fastest, (configurations,) bool."""
        return self.seconds <= (1 + part) * self.best_seconds


def load_space(folder: Path, kernel: str, device: str) -> Space:
    """Read one recorded space."""
    path = folder / "kernel_tuner_hub" / f"{kernel}-{device}.json.gz"
    if not path.is_file():
        raise SystemExit(f"{path}: no such file; --data is the folder that has kernel_tuner_hub/")
    with gzip.open(path) as file:
        return space_of(kernel, device, json.load(file))


def space_of(kernel: str, device: str, cache: Mapping[str, Any]) -> Space:
    """Make arrays of one recorded space."""
    records = list(cache["cache"].values())
    named = {
        name: np.array([record[name] for record in records], dtype=np.float64)
        for name in cache["tune_params_keys"]
    }
    gpu, is_gemm = DEVICES[device], kernel == "gemm"
    parameters = np.stack([values for values in named.values() if np.ptp(values) > 0], axis=1)
    switches = [] if is_gemm else [is_guarded(named)]
    milliseconds = [
        record["time"] if isinstance(record["time"], float | int) else np.inf for record in records
    ]
    costs = [sum(float(record.get(step) or 0.0) for step in _COSTS) for record in records]
    return Space(
        name=f"{kernel.split('_')[0]} {device}",
        gpu=gpu,
        tiles=gemm_tiles(named) if is_gemm else convolution_tiles(named, gpu.warp),
        parameters=parameters,
        decisions=np.column_stack([_on_scale(parameters), *switches]).astype(np.float64),
        seconds=np.array(milliseconds) / 1e3,
        cost_seconds=np.array(costs) / 1e3,
    )


def _on_scale(parameters: Floats) -> Floats:
    """Sizes on a scale of powers of two; switches, which may be 0, as they are."""
    sizes = parameters.min(axis=0) > 0
    return np.where(sizes, np.log2(np.maximum(parameters, 1.0)), parameters)
