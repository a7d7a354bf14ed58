"""What the laws were fitted to, as one small file of the package: versioned, with a checksum."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from tune_farm.tuner.errors import EnvironmentUnusableError
from tune_farm.tuner.predictor.forecast.kernels import KernelKind

FILE_NAME = "trained.json"
_FORMAT = 1
_REMEDY = (
    "install tune-farm again (`pip install --force-reinstall`), "
    "or make the file with benchmarks/train_forecast.py"
)
#: What a range may be given of: properties of `Sizes`.
RANGED = frozenset({"batch", "rows", "depth", "columns", "moved_bytes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFit:
    """One class of kernels."""

    numbers: Mapping[str, float]  # of its law
    most: Mapping[str, float]  # of what it depends on, among the rows that it was fitted to
    spread: float  # nine of ten kernels last between the law over it and the law times it
    power_bound_spread: float  # the same where the board's power bounds products


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What one synchronous call of a class costs beside the device, in rows timed by events.

    A row lasts `call_seconds` and then the kernel, or until the host has recorded the event.
    """

    call_seconds: float
    gap_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """All that is shipped."""

    revision: int  # counts up with each training that is shipped
    classes: Mapping[KernelKind, ClassFit]
    hosts: Mapping[KernelKind, Mapping[str, Host]]  # by GPU as the driver names it


@functools.cache
def trained() -> Trained:
    """The numbers that ship with the package.

    Raises:
        EnvironmentUnusableError: the file is missing or damaged.
    """
    file = files("tune_farm.tuner.predictor.forecast") / FILE_NAME
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = f"the forecast's trained numbers ({file}) cannot be read: {error}"
        raise EnvironmentUnusableError(cause, _REMEDY) from None
    return parsed(text, str(file))


def parsed(text: str, source: str) -> Trained:
    """The numbers of a file's text.

    Raises:
        EnvironmentUnusableError: it is damaged, or of another version.
    """
    try:
        item = json.loads(text)
        body, found = item["body"], item["sha256"]
        if item["format"] != _FORMAT:
            cause = f"{source} has format {item['format']!r}, this version reads {_FORMAT}"
            raise EnvironmentUnusableError(cause, _REMEDY)
        if _checksum(body) != found:
            raise EnvironmentUnusableError(f"{source} is damaged: its checksum differs", _REMEDY)
        return _read(body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        cause = f"{source} is damaged: {type(error).__name__}: {error}"
        raise EnvironmentUnusableError(cause, _REMEDY) from None


def written(model: Trained) -> str:
    """The text of the file; equal numbers give equal text."""
    body = {
        "revision": model.revision,
        "classes": {
            kind.value: {
                "numbers": dict(fit.numbers),
                "most": dict(fit.most),
                "spread": fit.spread,
                "power_bound_spread": fit.power_bound_spread,
            }
            for kind, fit in model.classes.items()
        },
        "hosts": {
            kind.value: {
                gpu: {"call_seconds": host.call_seconds, "gap_seconds": host.gap_seconds}
                for gpu, host in hosts.items()
            }
            for kind, hosts in model.hosts.items()
        },
    }
    document = {"format": _FORMAT, "sha256": _checksum(body), "body": body}
    return json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"


def _checksum(body: Any) -> str:
    """Of the numbers, however the file is laid out."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _read(body: Any) -> Trained:
    classes = {}
    for name, item in body["classes"].items():
        numbers = {key: float(value) for key, value in item["numbers"].items()}
        most = {key: float(value) for key, value in item["most"].items()}
        if not most or not most.keys() <= RANGED:
            raise KeyError(f"most of {name}")
        spreads = {key: float(item[key]) for key in ("spread", "power_bound_spread")}
        if not all(1.0 <= spread < 100.0 for spread in spreads.values()):
            raise ValueError(f"spread of {name}: {spreads}")
        classes[KernelKind(name)] = ClassFit(numbers=numbers, most=most, **spreads)
    hosts = {
        KernelKind(name): {gpu: Host(**each) for gpu, each in item.items()}
        for name, item in body["hosts"].items()
    }
    missing = sorted(kind.value for kind in TRAINED_KINDS if kind not in classes)
    if missing:
        raise KeyError(missing[0])
    return Trained(revision=int(body["revision"]), classes=classes, hosts=hosts)


#: Classes that there were rows of; the others borrow the law of elementwise kernels.
TRAINED_KINDS = (
    KernelKind.BATCHED_PRODUCT,
    KernelKind.LINEAR,
    KernelKind.ELEMENTWISE,
    KernelKind.SOFTMAX,
    KernelKind.LAYER_NORM,
)
