"""What the parts of the check work with: clients of one GPU, MPS daemons, a clock, a time limit.

Two labs do it: `machine.Machine` on a real GPU, `simulated.SimulatedGpuLab` without one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from benchmarks.gpu.bundle import Operator
from benchmarks.gpu.messages import Answer, Launch, Refused, Time, Timed, Work
from tune_farm.client.devices.cuda_driver import CudaDevice
from tune_farm.client.share.mps.control import Control
from tune_farm.client.share.mps.handshake import Attached

Expected = TypeVar("Expected", bound=Answer)


class SkippedError(Exception):
    """A part can't be done here; the text is the reason."""


class LateError(Exception):
    """A part's time is over."""


class Client(Protocol):
    """A process on the GPU. `start` and `answer` come in turn."""

    @property
    def attached(self) -> Attached:
        """What it says that it was given."""
        ...

    def start(self, work: Work) -> None:
        """Give it something to do."""
        ...

    def answer(self) -> Answer:
        """Wait for what came of it.

        Raises:
            LateError: the part's time is over.
            ChildDiedError: the process is gone.
        """
        ...


class Daemon(Protocol):
    """An MPS daemon of the check's own."""

    @property
    def control(self) -> Control:
        """Speaks to it."""
        ...

    def client(
        self, name: str, *, percent: float | None = None, partition: str | None = None
    ) -> AbstractContextManager[Client]:
        """Start a client of it; when the context ends, so does the client."""
        ...

    def lost_client(self, name: str, *, percent: float) -> AbstractContextManager[Client]:
        """Start a client that was told a pipe directory in which nobody listens."""
        ...


class Lab(Protocol):
    """One GPU and what it is checked with."""

    @property
    def device(self) -> CudaDevice:
        """The whole GPU, as the first client saw it."""
        ...

    @property
    def is_simulated(self) -> bool:
        """Whether there is none."""
        ...

    @property
    def code(self) -> str:
        """The check's kernels for this GPU.

        Raises:
            SkippedError: there are none.
        """
        ...

    @property
    def registers(self) -> Mapping[str, int]:
        """Of a thread, by kernel of `code`."""
        ...

    def operators(self) -> Sequence[Operator]:
        """Operators with schedules that run here.

        Raises:
            SkippedError: there are none.
        """
        ...

    def launch(self, operator: Operator, place: int) -> Launch:
        """One schedule of an operator."""
        ...

    def library(self, operator: Operator, place: int) -> str:
        """The same as a library; empty if it was not brought."""
        ...

    def alone(self, name: str) -> AbstractContextManager[Client]:
        """Start a client that MPS has nothing to do with: on the whole GPU."""
        ...

    def runtime(self, name: str) -> AbstractContextManager[Client]:
        """Start a client that runs libraries in TVM's runtime.

        Raises:
            SkippedError: TVM's runtime was not brought.
        """
        ...

    def daemon(self, *, static: bool = False) -> AbstractContextManager[Daemon]:
        """Start a daemon; when the context ends, so does the daemon.

        Raises:
            SkippedError: MPS can't be started here.
        """
        ...

    def now(self) -> float:
        """Seconds, as `time.monotonic` counts."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait."""
        ...

    def limit(self, seconds: float) -> None:
        """Let what is asked from now on take so long in all."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a part found."""

    says: str  # one line for people
    results: Mapping[str, float] = field(default_factory=dict)
    rows: Sequence[Mapping[str, Any]] = ()  # equal keys in each
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        assert all(row.keys() == self.rows[0].keys() for row in self.rows), self.rows


#: Findings of the parts before, by name.
Earlier = Mapping[str, Findings]


def ask(client: Client, work: Work) -> Answer:
    """Give a client something to do, and wait."""
    client.start(work)
    return client.answer()


def told(client: Client, work: Work, kind: type[Expected]) -> Expected:
    """The same, where the driver must not refuse.

    Raises:
        SkippedError: it does.
    """
    return require(ask(client, work), kind)


def require(answer: Answer, kind: type[Expected]) -> Expected:
    """An answer that is not a refusal.

    Raises:
        SkippedError: it is one.
    """
    if isinstance(answer, Refused):
        raise SkippedError(f"the driver refuses: {answer.text}")
    assert isinstance(answer, kind), answer
    return answer


def seconds_of(client: Client, launch: Launch, repeats: int = 5) -> float:
    """Median seconds of a launch.

    Raises:
        SkippedError: it does not run here.
    """
    timed = told(client, Time(launch=launch, repeats=repeats), Timed)
    ordered = sorted(timed.repeats_seconds)
    return ordered[len(ordered) // 2]


def require_attached(client: Client) -> CudaDevice:
    """What a client was given.

    Raises:
        SkippedError: nothing.
    """
    attached = client.attached
    if attached.error:
        raise SkippedError(f"a client can't start: {attached.error}")
    return attached.devices[0]
