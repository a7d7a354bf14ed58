"""What a run was made with: the journal's header and `environment.json`."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tune_farm
from tune_farm.client.devices.health import read_health
from tune_farm.server.config import RunConfig
from tune_farm.sharding.lower import LoweredModel
from tune_farm.tuner.records.schema import Header
from tune_farm.tuner.types import Device, Share

_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "ray", "numpy", "xgboost", "onnx")


def header_of(
    config: RunConfig,
    *,
    run_id: str,
    device: Device,
    share: Share,
    target_json: str,
    lowered: LoweredModel,
) -> Header:
    """The header of a run's journal."""
    return Header(
        run_id=run_id,
        model=model_identity(config.spec.model),
        batch=config.spec.batch,
        sequence=config.spec.sequence,
        shapes=config.spec.shapes,
        target_json=target_json,
        device_class=device.device_class,
        share_kind=share.kind,
        share_granted=share.granted,
        share_total=share.total,
        asked_percent=share.asked_percent,
        tune_farm_version=tune_farm.__version__,
        tvm_version=_version("apache-tvm"),
        seed=config.seed,
        strategy=config.strategy,
        layout=lowered.layout.value,
        fast_math=lowered.fast_math,
        created=time.time(),
        checked=config.check,
    )


def model_identity(model: str) -> str:
    """What makes two models the same for records: a built-in's name, or a file's content."""
    path = Path(model)
    if not path.is_file():
        return model
    return f"{path.name} (sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]})"


def environment(device: Device, *, memory: dict[str, Any]) -> dict[str, Any]:
    """What `environment.json` holds.

    Args:
        device: what is tuned for.
        memory: what the predictor began with.
    """
    return {
        "tune_farm": tune_farm.__version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "host": platform.node(),
        "pid": os.getpid(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "device": asdict(device),
        "health": _health(device),
        "memory": memory,
        # As TVM's own measurements: no cache is flushed between the calls of a repeat.
        "timing": "repeats follow a warm-up call; caches are warm",
    }


def _health(device: Device) -> dict[str, Any] | None:
    """Clocks, memory errors and neighbours of a GPU as the run begins."""
    health = read_health(device.uuid) if device.device_class.kind == "cuda" else None
    return None if health is None else asdict(health)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
