"""The lab without a GPU: the same questions, answered by the law of `client.sim`.

Its clock is made up, as its GPU is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.gpu.bundle import Operator
from benchmarks.gpu.lab import Client, Daemon, LateError, SkippedError
from benchmarks.gpu.launches import tiles_of
from benchmarks.gpu.messages import (
    Answer,
    Done,
    Fault,
    Launch,
    Limited,
    LimitSms,
    Output,
    Pump,
    Pumped,
    Ran,
    Refused,
    RollCall,
    Rolled,
    RunLibrary,
    Synchronize,
    Time,
    Timed,
    Values,
    Work,
)
from benchmarks.gpu.simulated_mps import (
    CHUNK_SMS,
    RECOVERY_SECONDS,
    Context,
    Server,
    SimulatedControl,
    World,
)
from tune_farm.client.sim.gpus import SimulatedGpu
from tune_farm.client.sim.truth import deviation, tile_seconds

_START_SECONDS = 0.5
_BATCHES = 100
_LAUNCH_FAILED, _ILLEGAL_ADDRESS, _NOT_READY = 719, 700, 807
#: Memory that others use meanwhile is slower for everybody than its parts add up to.
_CROWDED = 0.9


class SimulatedClient:
    """Implements `lab.Client`."""

    def __init__(self, world: World, sms: int, server: Server | None, error: int = 0) -> None:
        world.clock += _START_SECONDS
        world.pids += 1
        self._world = world
        self._server = server
        self._sms = sms
        self._context = Context(error=error)
        self.attached = world.attached(world.pids, sms, error)
        self._work: Work | None = None
        self._launches = 0
        if server is not None and not error:
            server.clients[world.pids] = self._context

    def start(self, work: Work) -> None:
        self._work = work
        if isinstance(work, Pump):
            self._world.pumping += 1
            self._world.most_pumping = max(self._world.pumping, self._world.most_pumping)

    def answer(self) -> Answer:
        work, self._work = self._work, None
        assert work is not None
        if self._world.clock > self._world.end:
            raise LateError("the part's time is over")
        try:
            if self._context.error:
                text = f"SIMULATED error {self._context.error}"
                return Refused(number=self._context.error, text=text)
            return self._do(work)
        finally:
            if isinstance(work, Pump):
                self._world.pumping -= 1
                if not self._world.pumping:
                    self._world.most_pumping = 0
                    self._world.clock += work.seconds

    def close(self) -> None:
        """Leave; the last one to leave lets a faulty server recover."""
        if self._server is not None and self.attached.pid in self._server.clients:
            del self._server.clients[self.attached.pid]
            self._server.sound_again = self._world.clock + RECOVERY_SECONDS

    def _do(self, work: Work) -> Answer:
        match work:
            case RollCall():
                return Rolled(smids=tuple(range(self._sms)))
            case Time():
                seconds = self._seconds(work.launch, 1)
                self._world.clock += work.repeats * work.repeat_seconds
                repeats = (self._world.noisy(seconds) for _ in range(work.repeats))
                return Timed(repeats_seconds=tuple(repeats))
            case Pump():
                return self._pump(work)
            case Output():
                return Values(values=())  # it computes nothing
            case Fault():
                self._fault()
                return Refused(number=_ILLEGAL_ADDRESS, text="a SIMULATED illegal address")
            case Synchronize():
                return Done()
            case LimitSms():
                self._sms = max(CHUNK_SMS, -(-work.sms // CHUNK_SMS) * CHUNK_SMS)
                self._sms = min(self._sms, self._world.gpu.machine.total_sms)
                return Limited(sms=self._sms)
            case RunLibrary():
                repeats = (self._world.noisy(work.seconds) for _ in range(5))
                return Ran(values=(), repeats_seconds=tuple(repeats), version="SIMULATED")

    def _pump(self, work: Pump) -> Pumped:
        seconds = self._seconds(work.launch, self._world.most_pumping)
        launches = max(1, int(work.seconds / seconds))
        batches = (self._world.noisy(seconds) for _ in range(_BATCHES))
        return Pumped(
            launches=launches, wall_seconds=launches * seconds, batches_seconds=tuple(batches)
        )

    def _seconds(self, launch: Launch, clients: int) -> float:
        """By the law of the simulated GPU, off in the way of this launch."""
        behavior, machine = self._world.gpu.behavior, self._world.gpu.machine
        part = _CROWDED / clients if clients > 1 else 1.0
        share = replace(
            machine,
            sms=self._sms,
            l2_bytes_per_second=machine.l2_bytes_per_second * part,
            dram_bytes_per_second=machine.dram_bytes_per_second * part,
        )
        law = tile_seconds(tiles_of(launch.tiles), share)
        off = np.exp(behavior.surprise * deviation(launch.name))
        return float(law * off) + behavior.launch_seconds

    def _fault(self) -> None:
        self._context.error = _ILLEGAL_ADDRESS
        if self._server is not None and not self._server.static:
            self._server.is_faulty = True
            for context in self._server.clients.values():
                context.error = context.error or _LAUNCH_FAILED


class SimulatedDaemon:
    """Implements `lab.Daemon`."""

    def __init__(self, world: World, *, static: bool) -> None:
        self._world = world
        self._server = Server(static=static)
        self.control = SimulatedControl(
            pipe_directory=Path("SIMULATED"), world=world, server=self._server
        )

    @contextlib.contextmanager
    def client(
        self, name: str, *, percent: float | None = None, partition: str | None = None
    ) -> Iterator[Client]:
        if partition is not None:
            sms = self._server.partitions[partition] * CHUNK_SMS
        else:
            sms = self._world.gpu.share(round(percent or 100)).granted
        faulty = self._server.state(self._world.clock) == "FAULT"
        client = SimulatedClient(self._world, sms, self._server, _NOT_READY if faulty else 0)
        try:
            yield client
        finally:
            client.close()

    @contextlib.contextmanager
    def lost_client(self, name: str, *, percent: float) -> Iterator[Client]:
        yield SimulatedClient(self._world, self._world.gpu.machine.total_sms, None)


class SimulatedGpuLab:
    """Implements `lab.Lab`."""

    is_simulated = True
    code = "SIMULATED"

    def __init__(self, gpu: SimulatedGpu, operators: Sequence[Operator], reason: str = "") -> None:
        """Simulate.

        Args:
            gpu: which.
            operators: with schedules for its architecture.
            reason: why there are none.
        """
        self._world = World(gpu)
        self._operators = operators
        self._reason = reason
        self.device = self._world.device()
        self.registers: Mapping[str, int] = {}

    def operators(self) -> Sequence[Operator]:
        if not self._operators:
            raise SkippedError(self._reason)
        return self._operators

    def launch(self, operator: Operator, place: int) -> Launch:
        return operator.launch(operator.schedules[place], Path("SIMULATED"))

    def library(self, operator: Operator, place: int) -> str:
        return "SIMULATED"

    @contextlib.contextmanager
    def alone(self, name: str) -> Iterator[Client]:
        yield SimulatedClient(self._world, self.device.sm_count, None)

    def runtime(self, name: str) -> contextlib.AbstractContextManager[Client]:
        return self.alone(name)

    @contextlib.contextmanager
    def daemon(self, *, static: bool = False) -> Iterator[Daemon]:
        yield SimulatedDaemon(self._world, static=static)

    def now(self) -> float:
        return self._world.clock

    def pause(self, seconds: float) -> None:
        self._world.clock += seconds

    def limit(self, seconds: float) -> None:
        self._world.end = self._world.clock + seconds
