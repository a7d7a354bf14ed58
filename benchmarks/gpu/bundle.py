"""What `prepare` makes and `run` takes along: kernels, schedules, a manifest with hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.messages import Argument, Buffer, Launch, TaskInput
from tune_farm.tuner.errors import EnvironmentUnusableError
from tune_farm.tuner.types import TensorSpec

MANIFEST = "manifest.json"
MOST_BYTES = 60 * 10**6
_REMEDY = "make it anew with 'python benchmarks/gpu/check.py prepare'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One candidate of an operator: one kernel."""

    id: str
    origin: str  # how it was drafted
    tiles: Mapping[str, float]  # a row of `GpuTiles`
    # Empty where nothing was compiled: then it can only be simulated.
    code: str = ""  # cubin, from the bundle's folder
    library: str = ""  # the same as tune-farm ships it, if it was brought
    function: str = ""
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    order: tuple[int, ...] = ()  # the kernel's parameters, as places among the operator's arguments
    registers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator with schedules for one architecture, and what is right."""

    name: str
    architecture: str  # "sm_90a"
    task_id: str
    arguments: tuple[TensorSpec, ...]
    reduction_length: int
    flops: float
    schedules: tuple[Schedule, ...]
    places: tuple[int, ...] = ()  # of the output, which are compared
    reference: tuple[float, ...] = ()  # what stands there

    def launch(self, schedule: Schedule, folder: Path) -> Launch:
        """One of its schedules, on the inputs that measurements give it."""
        arguments = tuple(self._argument(place) for place in schedule.order)
        return Launch(
            name=f"{self.name} {schedule.id[:6]}",
            code=str(folder / schedule.code),
            function=schedule.function,
            grid=schedule.grid,
            block=schedule.block,
            shared_bytes=schedule.shared_bytes,
            arguments=arguments,
            tiles=schedule.tiles,
        )

    @property
    def output(self) -> int:
        """The place of the result among the arguments."""
        return next(place for place, each in enumerate(self.arguments) if each.is_output)

    def _argument(self, place: int) -> Argument:
        spec, name = self.arguments[place], f"{self.task_id} {place}"
        if spec.is_output:
            count = 1
            for size in spec.shape:
                count *= size
            return Buffer(name=name, bytes=4 * count)
        return TaskInput(name=name, task_id=self.task_id, arguments=self.arguments, place=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """All of it."""

    folder: Path
    made: Mapping[str, str]  # by what it was made
    kernels: Mapping[str, str]  # cubin by architecture, such as "sm_90"
    registers: Mapping[str, Mapping[str, int]]  # of their kernels, by architecture
    operators: tuple[Operator, ...]
    tvm: Mapping[str, str] = field(default_factory=dict)  # "site", "version"; or "missing": why

    def kernels_for(self, capability: str) -> str:
        """Path of the kernels for a GPU; empty if there are none.

        A cubin runs on its own major version of compute capability, from its minor version on.
        """
        major, minor = (int(part) for part in capability.split("."))
        own = [f"sm_{major}{each}" for each in range(minor, -1, -1)]
        found = next((self.kernels[name] for name in own if name in self.kernels), "")
        return str(self.folder / found) if found else ""

    def operators_for(self, capability: str) -> tuple[Operator, ...]:
        """Operators whose schedules run on a GPU: an "a" in the architecture ties it to one."""
        digits = capability.replace(".", "")
        names = {f"sm_{digits}", f"sm_{digits}a"}
        return tuple(each for each in self.operators if each.architecture in names)


def write_manifest(bundle: Bundle) -> int:
    """Write down a bundle with the hashes of all its files; their bytes together.

    Raises:
        EnvironmentUnusableError: they are too many to carry.
    """
    listed, total = {}, 0
    for path in sorted(each for each in bundle.folder.rglob("*") if each.is_file()):
        name = str(path.relative_to(bundle.folder))
        if name != MANIFEST:
            content = path.read_bytes()
            total += len(content)
            listed[name] = hashlib.sha256(content).hexdigest()
    document = {**asdict(bundle), "v": 1, "files": listed}
    del document["folder"]
    text = json.dumps(document, indent=1) + "\n"
    (bundle.folder / MANIFEST).write_text(text)
    total += len(text)
    if total > MOST_BYTES:
        raise EnvironmentUnusableError(
            f"the bundle has {total / 1e6:.0f} MB, more than {MOST_BYTES / 1e6:.0f}",
            "leave out TVM's runtime: --no-tvm",
        )
    return total


def read_bundle(folder: Path) -> Bundle:
    """Read a bundle whose files are all as they were made.

    Raises:
        EnvironmentUnusableError: there is none, or it is damaged.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise EnvironmentUnusableError(f"there is no bundle in {folder}", _REMEDY)
    try:
        document = json.loads(path.read_text())
        files = document["files"]
        bundle = Bundle(
            folder=folder,
            made=document["made"],
            kernels=document["kernels"],
            registers=document["registers"],
            operators=tuple(_operator(each) for each in document["operators"]),
            tvm=document["tvm"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise EnvironmentUnusableError(f"{path} is not a manifest: {error}", _REMEDY) from None
    for name, expected in files.items():
        each = folder / name
        if not each.is_file():
            raise EnvironmentUnusableError(f"the bundle lacks {name}", _REMEDY)
        if hashlib.sha256(each.read_bytes()).hexdigest() != expected:
            raise EnvironmentUnusableError(f"{name} of the bundle was changed", _REMEDY)
    return bundle


def _operator(item: dict[str, Any]) -> Operator:
    arguments = tuple(
        TensorSpec(shape=tuple(each["shape"]), dtype=each["dtype"], is_output=each["is_output"])
        for each in item["arguments"]
    )
    schedules = tuple(
        Schedule(
            **{
                **each,
                "grid": _three(each["grid"]),
                "block": _three(each["block"]),
                "order": tuple(each["order"]),
            }
        )
        for each in item["schedules"]
    )
    places, reference = tuple(item["places"]), tuple(item["reference"])
    known = {"arguments": arguments, "schedules": schedules}
    return Operator(**{**item, **known, "places": places, "reference": reference})


def _three(values: list[int]) -> tuple[int, int, int]:
    x, y, z = values
    return x, y, z
