"""What the on-device check says to its clients, each a process of its own, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tune_farm.tuner.types import TensorSpec

# ---- what is launched ----


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A piece of the GPU's memory, kept by name from one launch to the next."""

    name: str
    bytes: int
    seed: int | None = None  # of float32 values in [-1, 1); None: bits that are NaN, for a result


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInput:
    """One argument of an operator, with the values that measurements give it."""

    name: str
    task_id: str
    arguments: tuple[TensorSpec, ...]  # of the whole operator
    place: int  # among them


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """An integer argument."""

    value: int
    bits: int = 32


Argument: TypeAlias = Buffer | TaskInput | Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel with all that its launch takes."""

    name: str  # for people
    code: str  # path of the cubin
    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0  # asked for at the launch
    arguments: tuple[Argument, ...] = ()
    #: A row of `GpuTiles`, by field: what the predictor's law sees.
    tiles: Mapping[str, float]


# ---- check → client ----


@dataclass(frozen=True, slots=True, kw_only=True)
class RollCall:
    """Which SMs do blocks run on?"""

    code: str
    blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """Time a launch, by events on the GPU."""

    launch: Launch
    repeats: int = 5
    repeat_seconds: float = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Pump:
    """Launch again and again, from a moment that all clients share."""

    launch: Launch
    begin: float  # time.monotonic(), which all processes of a machine have in common
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Launch once on a poisoned result, and say what stands at some places of it."""

    launch: Launch
    argument: int  # the result, float32
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Write where nothing is."""

    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Synchronize:
    """Is this client's context sound?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSms:
    """Go on with some of the SMs, by a green context of this process; nothing else uses them."""

    sms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLibrary:
    """Load a library as tune-farm builds it, in TVM's runtime, and time it."""

    library: str
    task_id: str
    arguments: tuple[TensorSpec, ...]
    places: tuple[int, ...]  # of the output
    seconds: float  # what it takes about: only a simulation looks at it


Work: TypeAlias = RollCall | Time | Pump | Output | Fault | Synchronize | LimitSms | RunLibrary

# ---- client → check ----


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The driver's error; `number` is CUresult, 0 where it lacks a function."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """It worked, and there is no more to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolled:
    """The SMs that blocks were seen on, each once."""

    smids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Seconds of one launch: the mean of each repeat."""

    repeats_seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pumped:
    """What was launched meanwhile."""

    launches: int
    wall_seconds: float
    batches_seconds: tuple[float, ...]  # of one launch: the mean of each batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What stands at the places that were asked for."""

    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """SMs that a green context got."""

    sms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A library ran."""

    values: tuple[float, ...]
    repeats_seconds: tuple[float, ...]
    version: str  # TVM's


Answer: TypeAlias = Refused | Done | Rolled | Timed | Pumped | Values | Limited | Ran
