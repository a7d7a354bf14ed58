"""The GPUs that can be simulated, as files in `configs/sim` describe them."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.predictor.machine import Gpu
from tune_farm.tuner.types import Device, DeviceClass, Share

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PREFIX = "sim:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behavior:
    """What makes a simulated GPU less than perfect."""

    noise: float  # standard deviation of a repeat, as a part of it
    surprise: float  # of a schedule's true time about the law, in log
    launch_seconds: float
    busy: float  # part of the time in which a co-tenant runs, too
    slowdown: float  # of everything meanwhile
    fault_rate: float  # part of the schedules that fault when they run

    def __post_init__(self) -> None:
        assert 0 <= self.busy <= 1, self
        assert 0 <= self.fault_rate <= 1, self


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGpu:
    """One of them."""

    id: str  # "sim:h100"
    name: str
    compute_capability: str
    memory_bytes: int
    machine: Gpu  # all of it
    behavior: Behavior

    def device(self) -> Device:
        """As records name it."""
        return Device(
            device_class=DeviceClass(
                kind="cuda",
                name=self.name,
                total=self.machine.total_sms,
                memory_bytes=self.memory_bytes,
                architecture=self.compute_capability,
            ),
            uuid=self.id,
            host="simulated",
            driver="simulated",
        )

    def share(self, percent: int) -> Share:
        """What a percentage gives: pairs of SMs, rounded down, one pair at least.

        NVIDIA does not document how it rounds; a pair is what the SMs of one texture processing
        cluster are.
        """
        total = self.machine.total_sms
        return Share(
            kind="whole" if percent == 100 else "mps",
            asked_percent=percent,
            granted=total if percent == 100 else max(2, total * percent // 100 // 2 * 2),
            total=total,
        )

    def machine_of(self, share: Share) -> Gpu:
        """The part of it that a share may use."""
        return replace(self.machine, sms=share.granted)


def simulated_gpu(spec: str) -> SimulatedGpu:
    """The GPU that `sim:NAME` names; NAME may be a file like those in `configs/sim`.

    Raises:
        UsageError: there is none of that name, or the file does not describe one.
    """
    name = spec.removeprefix(PREFIX)
    known = {each.name.removesuffix(".toml"): each for each in _folder()}
    if name in known:
        return _read(spec, known[name].read_text())
    path = Path(name)
    if name.endswith(".toml") and path.is_file():
        return _read(spec, path.read_text())
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {PREFIX}{near[0]}? " if near else ""
    raise UsageError(
        f"no simulated GPU is named {name!r}",
        f"{hint}there are {', '.join(PREFIX + each for each in sorted(known))}",
    )


def _folder() -> list[Any]:
    return [each for each in (files("tune_farm.configs") / "sim").iterdir() if each.is_file()]


def _read(spec: str, text: str) -> SimulatedGpu:
    try:
        item = tomllib.loads(text)
        machine = _of(Gpu, {**item["machine"], "total-sms": item["machine"]["sms"]})
        return SimulatedGpu(
            id=spec,
            name=str(item["name"]),
            compute_capability=str(item["compute-capability"]),
            memory_bytes=int(item["memory-bytes"]),
            machine=machine,
            behavior=_of(Behavior, item["behavior"]),
        )
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError, AssertionError) as error:
        raise UsageError(
            f"{spec} does not describe a GPU: {type(error).__name__}: {error}",
            "compare it with configs/sim/h100.toml",
        ) from None


def _of(kind: Any, item: Mapping[str, Any]) -> Any:
    known = {field.name for field in fields(kind)}
    values = {name.replace("-", "_"): value for name, value in item.items()}
    unknown = sorted(values.keys() - known)
    if unknown:
        raise ValueError(f"unknown key {unknown[0].replace('_', '-')!r}")
    return kind(**values)
