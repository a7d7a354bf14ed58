"""The GPUs that can be forecast for: files in `configs/gpus`, or one of the user's own."""

from __future__ import annotations

import difflib
import functools
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.predictor.forecast.chip import Chip

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MEMORY_PARTS = 8
_TEXTS = {"name", "compute-capability", "memory-kind"}
_COUNTS = {"sms", "fp32-lanes", "process-nanometers"}
_SIZES = {"clock-hertz", "dram-bytes-per-second", "memory-bytes", "l2-bytes", "board-watts"}
_EXTRA = {"aliases", "mig"}
_COMPARE = "compare it with configs/gpus/h100.toml"


def chip_of(spec: str) -> Chip:
    """The GPU that a name, a driver's name, "NAME/PROFILE" of MIG, or a file describes.

    Raises:
        UsageError: there is none of that name, or the file does not describe one.
    """
    path = Path(spec)
    if spec.endswith(".toml"):
        if not path.is_file():
            raise UsageError(f"there is no file {spec}", "give a name of `configs/gpus` or a file")
        return _whole(spec, _parsed(spec, path.read_text(encoding="utf-8")))
    names = _names()
    found = names.get(_plain(spec))
    if found is not None:
        return found
    near = difflib.get_close_matches(_plain(spec), names, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise UsageError(
        f"no GPU is named {spec!r}", f"{hint}known are {', '.join(catalogue())}, or give a file"
    )


@functools.cache
def catalogue() -> Mapping[str, Chip]:
    """Every whole GPU by its short name."""
    return {name: _whole(f"{name}.toml", item) for name, item in _items().items()}


def instances(name: str) -> Mapping[str, Chip]:
    """The MIG instances of a GPU of the catalogue by profile, such as "1g.10gb"."""
    mig = _items()[name].get("mig", [])
    return {each["profile"]: _instance(catalogue()[name], each) for each in mig}


@functools.cache
def _items() -> Mapping[str, dict[str, Any]]:
    """The files of the catalogue, by short name."""
    return {
        each.name.removesuffix(".toml"): _parsed(each.name, each.read_text())
        for each in sorted((files("tune_farm.configs") / "gpus").iterdir(), key=lambda f: f.name)
        if each.name.endswith(".toml")
    }


@functools.cache
def _names() -> Mapping[str, Chip]:
    """All that a GPU may be called by, in plain form."""
    found: dict[str, Chip] = {}
    for name, chip in catalogue().items():
        for alias in (name, chip.name, *_items()[name].get("aliases", [])):
            assert found.setdefault(_plain(alias), chip) == chip, alias
        for profile, instance in instances(name).items():
            found[f"{_plain(name)}/{profile}"] = instance
    return found


def _instance(whole: Chip, item: Mapping[str, Any]) -> Chip:
    """A MIG instance: SMs and memory slices of its own, clock and power of the whole GPU."""
    part = int(item["memory-eighths"]) / _MEMORY_PARTS
    return replace(
        whole,
        name=f"{whole.name} MIG {item['profile']}",
        sms=int(item["sms"]),
        dram_bytes_per_second=whole.dram_bytes_per_second * part,
        memory_bytes=whole.memory_bytes * part,
        l2_bytes=whole.l2_bytes * part,
        is_instance=True,
    )


def _plain(name: str) -> str:
    return re.sub(r"[\s_]+", "-", name.strip().lower())


def _parsed(source: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is not TOML: {error}", _COMPARE) from None


def _whole(source: str, item: Mapping[str, Any]) -> Chip:
    required = _TEXTS | _COUNTS | _SIZES
    missing, unknown = sorted(required - item.keys()), sorted(item.keys() - required - _EXTRA)
    if missing or unknown:
        what = f"misses {missing[0]!r}" if missing else f"has an unknown key {unknown[0]!r}"
        raise UsageError(f"{source} does not describe a GPU: it {what}", _COMPARE)
    values: dict[str, Any] = {}
    for key in required:
        read = _text if key in _TEXTS else _number
        values[key.replace("-", "_")] = read(source, key, item[key])
    if not re.fullmatch(r"\d+\.\d+", str(values["compute_capability"])):
        raise UsageError(f'{source}: compute-capability is a text such as "9.0"', _COMPARE)
    return Chip(**values, total_sms=values["sms"])


def _text(source: str, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{source}: {key} is {value!r}, not a text", _COMPARE)
    return value


def _number(source: str, key: str, value: Any) -> float | int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < float("inf") or (key in _COUNTS and value != int(value)):
        kind = "a whole number" if key in _COUNTS else "a number"
        raise UsageError(f"{source}: {key} is {value!r}, not {kind} above 0", _COMPARE)
    return int(value) if key in _COUNTS else float(value)
