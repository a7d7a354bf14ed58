"""One client of the GPU: a process that attaches, then launches what it is told to.

Whatever a kernel does to its process, it does to this one.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.gpu.cuda import Kernels, Parameter
from benchmarks.gpu.messages import (
    Answer,
    Argument,
    Buffer,
    Done,
    Fault,
    Launch,
    Limited,
    LimitSms,
    Number,
    Output,
    Pump,
    Pumped,
    Refused,
    RollCall,
    Rolled,
    Synchronize,
    TaskInput,
    Time,
    Timed,
    Values,
    Work,
)
from tune_farm.client.devices.cuda_driver import CudaError
from tune_farm.client.share.mps.handshake import attach
from tune_farm.tuner.measure.inputs import make_inputs

#: How long a block of the roll call stays, in cycles of its SM.
_STAY_CYCLES = 50_000
#: An address that no allocation has: the page at zero is never mapped.
_NOWHERE = 0x10
_BATCH_SECONDS = 0.005
_MOST_LAUNCHES = 5_000
#: Random values that large buffers repeat.
_DISTINCT_VALUES = 1 << 20


def serve(connection: Connection[Any, Any]) -> None:
    """Attach and say what was given; then do what is asked until told to leave (None)."""
    connection.send(attach())
    hands: Hands | None = None
    while (work := connection.recv()) is not None:
        try:
            hands = hands or Hands(Kernels())
            answer = hands.do(work)
        except CudaError as error:
            answer = Refused(number=error.number, text=str(error))
        connection.send(answer)


class Hands:
    """Does one piece of work after the other; memory is kept by name."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._memory: dict[str, tuple[ctypes.c_void_p, int]] = {}  #: pointer, bytes
        self._inputs: dict[str, list[NDArray[np.generic]]] = {}  #: of a task, by its id

    def do(self, work: Work) -> Answer:
        """Do one piece of work.

        Raises:
            CudaError: the driver refuses, or a kernel faulted.
        """
        match work:
            case RollCall():
                return self._roll_call(work)
            case Time():
                return self._time(work)
            case Pump():
                return self._pump(work)
            case Output():
                return self._output(work)
            case Fault():
                function = self._kernels.function(work.code, "bad_address")
                nowhere = [ctypes.c_void_p(_NOWHERE)]
                self._kernels.starter(function, (1, 1, 1), (32, 1, 1), 0, nowhere)()
                self._kernels.synchronize()
                return Done()
            case Synchronize():
                self._kernels.synchronize()
                return Done()
            case LimitSms():
                return Limited(sms=self._kernels.limit_sms(work.sms))
            case _:
                raise AssertionError(f"not for this client: {work}")

    def _roll_call(self, work: RollCall) -> Rolled:
        function = self._kernels.function(work.code, "roll_call")
        seen = np.zeros(work.blocks, dtype=np.uint32)
        pointer = self._allocated("roll_call", seen.nbytes)
        parameters: list[Parameter] = [pointer, ctypes.c_uint64(_STAY_CYCLES)]
        self._kernels.starter(function, (work.blocks, 1, 1), (1024, 1, 1), 0, parameters)()
        self._kernels.synchronize()
        self._kernels.read(pointer, seen)
        return Rolled(smids=tuple(int(each) for each in np.unique(seen)))

    def _time(self, work: Time) -> Timed:
        start = self._starter(work.launch)
        self._elapsed(start, 2)
        number = math.ceil(work.repeat_seconds / max(self._elapsed(start, 1), 1e-7))
        number = min(number, _MOST_LAUNCHES)
        return Timed(
            repeats_seconds=tuple(
                self._elapsed(start, number) / number for _ in range(work.repeats)
            )
        )

    def _pump(self, work: Pump) -> Pumped:
        start = self._starter(work.launch)
        each = max(self._elapsed(start, 2) / 2, 1e-7)
        batch = min(math.ceil(_BATCH_SECONDS / each), _MOST_LAUNCHES)
        time.sleep(max(0.0, work.begin - time.monotonic()))
        began = time.monotonic()
        batches = []
        while time.monotonic() - began < work.seconds:
            batches.append(self._elapsed(start, batch) / batch)
        return Pumped(
            launches=batch * len(batches),
            wall_seconds=time.monotonic() - began,
            batches_seconds=tuple(batches),
        )

    def _output(self, work: Output) -> Values:
        start = self._starter(work.launch)
        argument = work.launch.arguments[work.argument]
        assert not isinstance(argument, Number), work
        pointer, size = self._memory[argument.name]
        self._kernels.poison(pointer, size)
        start()
        self._kernels.synchronize()
        result = np.empty(size // 4, dtype=np.float32)
        self._kernels.read(pointer, result)
        return Values(values=tuple(float(each) for each in result[list(work.places)]))

    def _elapsed(self, start: Callable[[], None], count: int) -> float:
        self._kernels.begin()
        for _ in range(count):
            start()
        return self._kernels.end()

    def _starter(self, launch: Launch) -> Callable[[], None]:
        """What starts a launch whose code and memory are in place."""
        function = self._kernels.function(launch.code, launch.function, launch.shared_bytes)
        parameters = [self._parameter(argument) for argument in launch.arguments]

        return self._kernels.starter(
            function, launch.grid, launch.block, launch.shared_bytes, parameters
        )

    def _parameter(self, argument: Argument) -> Parameter:
        if isinstance(argument, Number):
            kind = ctypes.c_int32 if argument.bits == 32 else ctypes.c_uint64
            return kind(argument.value)
        if isinstance(argument, TaskInput):
            return self._task_input(argument)
        if argument.name not in self._memory:
            pointer = self._allocated(argument.name, argument.bytes)
            self._fill(pointer, argument)
        return self._memory[argument.name][0]

    def _task_input(self, argument: TaskInput) -> ctypes.c_void_p:
        if argument.name not in self._memory:
            if argument.task_id not in self._inputs:
                self._inputs[argument.task_id] = make_inputs(
                    argument.arguments, task_id=argument.task_id, positive=False
                )
            values = self._inputs[argument.task_id][argument.place]
            self._kernels.write(self._allocated(argument.name, values.nbytes), values)
        return self._memory[argument.name][0]

    def _fill(self, pointer: ctypes.c_void_p, buffer: Buffer) -> None:
        if buffer.seed is None:
            self._kernels.poison(pointer, buffer.bytes)
            return
        self._kernels.write(pointer, random_values(buffer.seed, buffer.bytes // 4))

    def _allocated(self, name: str, size: int) -> ctypes.c_void_p:
        if self._memory.get(name, (None, 0))[1] != size:
            self._memory[name] = self._kernels.allocate(size), size
        return self._memory[name][0]


def random_values(seed: int, count: int) -> NDArray[np.float32]:
    """What buffers hold: never zeros, on which a GPU draws less power and clocks higher."""
    rng = np.random.default_rng(seed)
    distinct = rng.uniform(-1.0, 1.0, size=min(count, _DISTINCT_VALUES)).astype(np.float32)
    return np.resize(distinct, count)
