"""A GPU's clocks at one moment, and what holds them there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pynvml

from tune_farm.client.devices.nvml import NoDriverError, session, told
from tune_farm.tuner.types import Clocks

_MEGAHERTZ = 1e6
#: `nvmlClocksEventReasons` of NVML's API reference.
_EVENTS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
}
#: Those that come and go with the load: two timings under them are not of one machine.
_THROTTLES = frozenset(_EVENTS[bit] for bit in (0x4, 0x8, 0x20, 0x40, 0x80))


class ClockReader:
    """Asks for the clocks of one GPU, or of the GPU of a MIG instance, again and again.

    It stays in one session with the driver until it is no more: to begin one can take longer than
    a measurement.
    """

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._session = ExitStack()
        self._gpu: Any = None  #: handle; None: not found yet

    def read(self) -> Clocks | None:
        """The clocks now; None where there is no such device, or no driver."""
        if self._gpu is None:
            try:
                self._session.enter_context(session())
                self._gpu = gpu_of(pynvml.nvmlDeviceGetHandleByUUID(self._uuid))
            except (NoDriverError, pynvml.NVMLError):
                self._session.close()
                return None
        return clocks_of(self._gpu)


def gpu_of(device: Any) -> Any:
    """The GPU of a MIG instance; a GPU is its own."""
    return told(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, device) or device


def clocks_of(gpu: Any) -> Clocks:
    """What the driver tells within a session.

    Args:
        gpu: its handle; instances share their GPU's clocks.
    """
    reasons = told(pynvml.nvmlDeviceGetCurrentClocksEventReasons, gpu)
    return Clocks(
        sm_hertz=hertz(pynvml.nvmlDeviceGetClockInfo, gpu, pynvml.NVML_CLOCK_SM),
        memory_hertz=hertz(pynvml.nvmlDeviceGetClockInfo, gpu, pynvml.NVML_CLOCK_MEM),
        events=None if reasons is None else _named(reasons),
    )


def hertz(ask: Callable[..., int], gpu: Any, clock: int) -> float | None:
    """A clock that NVML tells in MHz."""
    megahertz = told(ask, gpu, clock)
    return None if megahertz is None else megahertz * _MEGAHERTZ


def throttles(clocks: Clocks) -> tuple[str, ...]:
    """Of the clock events, those that come and go with the load."""
    return tuple(event for event in clocks.events or () if event in _THROTTLES)


def _named(bits: int) -> tuple[str, ...]:
    """Names of the bits, lowest first; one that is newer than this table keeps its number."""
    return tuple(
        _EVENTS.get(1 << place, f"reason {1 << place:#x}")
        for place in range(bits.bit_length())
        if bits >> place & 1
    )
