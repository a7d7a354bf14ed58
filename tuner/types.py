"""The vocabulary: tasks, candidates, shares, outcomes and records, as they are sent and stored."""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass
from typing import Literal, TypeAlias

DeviceKind: TypeAlias = Literal["cpu", "cuda"]
ShareKind: TypeAlias = Literal["cores", "whole", "mps", "mps-static", "mig"]

#: Registers are handed to a warp in portions of so many to a thread.
_PORTION = 8
_WARP = 32
#: The trace of the operator as the compiler lowers it by default: no instruction, no decision.
UNTUNED_TRACE = "[[], []]"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One argument of an operator."""

    shape: tuple[int, ...]
    dtype: str
    is_output: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One distinct operator of a model."""

    id: str  # the workload's structural hash, as TVM's database keys it; equal on every machine
    name: str  # for people
    kind: str  # "conv2d", "matmul", "softmax", …
    weight: int  # calls of the operator in one inference
    flops: float  # floating-point operations of one call
    bytes_moved: int  # bytes of all arguments, each touched once
    reduction_length: int  # longest chain of accumulations into one output element; 1 = none
    arguments: tuple[TensorSpec, ...]  # in call order, outputs last
    module_json: str  # the IRModule with one PrimFunc `main`
    target_json: str  # the compilation target, as TVM prints it


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelUsage:
    """What one kernel of a compiled candidate takes, as the assembler reports it."""

    name: str
    threads: int  # of a block
    registers: int  # of a thread
    spilled_bytes: int  # of a thread, stores and loads
    stack_bytes: int  # of a thread: what it indexes in ways that registers can't be
    static_shared_bytes: int  # of a block
    dynamic_shared_bytes: int  # of a block, asked for at the launch

    @property
    def shared_bytes(self) -> int:
        """Of a block."""
        return self.static_shared_bytes + self.dynamic_shared_bytes

    @property
    def block_registers(self) -> int:
        """What one resident block holds."""
        portions = -(-self.registers // _PORTION) * _PORTION
        return portions * -(-self.threads // _WARP) * _WARP


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One schedule of a task; two with an equal trace are the same."""

    task_id: str
    trace_json: str

    @property
    def id(self) -> str:
        """A hash of workload and trace: the key of everything known about the candidate."""
        return hashlib.sha256(f"{self.task_id}\n{self.trace_json}".encode()).hexdigest()[:20]

    @property
    def is_untuned(self) -> bool:
        """Whether this is the operator's baseline."""
        return self.trace_json == UNTUNED_TRACE


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """What makes two devices interchangeable for records."""

    kind: DeviceKind
    name: str  # marketing name
    total: int  # SMs or cores
    memory_bytes: int
    architecture: str  # compute capability ("9.0") or mcpu ("znver3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One physical device or MIG instance."""

    device_class: DeviceClass
    uuid: str  # stable on its machine; provenance only, never part of a record's key
    host: str
    driver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The part of one device that a measurement may use."""

    kind: ShareKind
    asked_percent: int  # 1-100, as the user asked
    granted: int  # SMs or cores really in force
    total: int  # SMs or cores of the whole device

    def __post_init__(self) -> None:
        assert 1 <= self.granted <= self.total, (self.granted, self.total)


class Fault(enum.Enum):
    """Failures that tuning expects; anything else is our bug and raises."""

    PRUNED_STATIC = "pruned_static"
    PRUNED_PREDICTED = "pruned_predicted"
    BUILD_ERROR = "build_error"
    BUILD_TIMEOUT = "build_timeout"
    HOST_OVERLOAD = "host_overload"
    LOAD_ERROR = "load_error"
    OUT_OF_RESOURCES = "out_of_resources"
    RUN_ERROR = "run_error"
    ILLEGAL_ACCESS = "illegal_access"
    RUN_TIMEOUT = "run_timeout"
    WORKER_DIED = "worker_died"
    LOST = "lost"
    WRONG_RESULT = "wrong_result"
    BAD_TIMING = "bad_timing"
    CONTENDED = "contended"


class Purpose(enum.Enum):
    """Why a candidate was handed to a build."""

    BASELINE = "baseline"
    SEARCH = "search"
    AUDIT = "audit"
    FINAL = "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A candidate that ran and gave the right numbers."""

    repeats_seconds: tuple[float, ...]  # one mean a repeat, warm-up left out
    stopped_early: bool = False  # far behind the best after its first repeat

    @property
    def median_seconds(self) -> float:
        """The median repeat: what candidates are compared by."""
        ordered = sorted(self.repeats_seconds)
        middle = len(ordered) // 2
        if len(ordered) % 2:
            return ordered[middle]
        return (ordered[middle - 1] + ordered[middle]) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A candidate that did not."""

    fault: Fault
    detail: str  # first line: the cause; then the worker's last stderr, if any


Outcome: TypeAlias = Measured | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSeconds:
    """Where one candidate's wall time went."""

    search: float = 0.0
    build: float = 0.0
    check: float = 0.0
    measure: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """A GPU's clocks when a candidate had just run; None is what its driver would not tell."""

    sm_hertz: float | None
    memory_hertz: float | None
    events: tuple[str, ...] | None  # what holds them there, in NVML's words


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the farm learned from one candidate; the only thing that is stored."""

    candidate: Candidate
    purpose: Purpose
    attempt: int  # 0, then one more for each repetition after a fault that was not the candidate's
    outcome: Outcome
    device: Device
    share: Share
    client: str  # the slot that measured
    corunners: int  # other clients at work on the same device while this ran
    cores_used: tuple[int, ...]  # cores that the measuring child was seen on
    stage_seconds: StageSeconds
    predicted_seconds: float | None
    time: float  # Unix time at which the outcome was known
    clocks: Clocks | None = None  # None: nobody was asked, as on a CPU

    @property
    def key(self) -> tuple[str, str, int]:
        """(candidate, purpose, attempt): unique in a journal, so a resent record is stored once."""
        return self.candidate.id, self.purpose.value, self.attempt

    @property
    def seconds(self) -> float | None:
        """Median measured seconds, or None if it failed."""
        return self.outcome.median_seconds if isinstance(self.outcome, Measured) else None
