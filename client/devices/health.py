"""What disturbs timings on a GPU at one moment: clocks, memory errors, and who computes there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pynvml

from tune_farm.client.devices.clocks import clocks_of, gpu_of, hertz
from tune_farm.client.devices.nvml import NoDriverError, session, told
from tune_farm.tuner.children.mark import MARKER, carries
from tune_farm.tuner.types import Clocks

#: MPS's own processes: what they do is their clients' work.
_MPS = ("nvidia-cuda-mps-server", "nvidia-cuda-mps-control")


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Somebody else's process on the device."""

    pid: int  # as the driver counts: in a container it may be another's, or nobody's
    name: str  # empty: not to be found from here

    def __str__(self) -> str:
        return f"{self.pid} ({self.name})" if self.name else str(self.pid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A GPU, or the GPU of a MIG instance; None is what the driver would not tell.

    Clocks, their limits and memory errors are those of the whole GPU: instances share them.
    """

    clocks: Clocks
    most_sm_hertz: float | None
    most_memory_hertz: float | None
    ecc_enabled: bool | None
    ecc_corrected: int | None  # since the driver was loaded
    ecc_uncorrected: int | None  # since the driver was loaded
    neighbours: tuple[Neighbour, ...] | None  # neither ours nor MPS's own


def read_health(uuid: str) -> Health | None:
    """Ask the driver now; None where there is no such device, or no driver.

    Args:
        uuid: of a GPU or MIG instance.
    """
    try:
        with session():
            return _read(pynvml.nvmlDeviceGetHandleByUUID(uuid))
    except (NoDriverError, pynvml.NVMLError):
        return None


def _read(device: Any) -> Health:
    # Of an instance the driver tells its processes only; the rest it tells of the GPU.
    gpu = gpu_of(device)
    ecc = told(pynvml.nvmlDeviceGetEccMode, gpu)
    return Health(
        clocks=clocks_of(gpu),
        most_sm_hertz=hertz(pynvml.nvmlDeviceGetMaxClockInfo, gpu, pynvml.NVML_CLOCK_SM),
        most_memory_hertz=hertz(pynvml.nvmlDeviceGetMaxClockInfo, gpu, pynvml.NVML_CLOCK_MEM),
        ecc_enabled=None if ecc is None else bool(ecc[0]),
        ecc_corrected=_errors(gpu, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        ecc_uncorrected=_errors(gpu, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
        neighbours=_neighbours(device),
    )


def _errors(gpu: Any, kind: int) -> int | None:
    return told(pynvml.nvmlDeviceGetTotalEccErrors, gpu, kind, pynvml.NVML_VOLATILE_ECC)


def _neighbours(device: Any) -> tuple[Neighbour, ...] | None:
    computing = told(pynvml.nvmlDeviceGetComputeRunningProcesses, device)
    if computing is None:
        return None
    # Clients of an MPS server compute through it, and some drivers list them here alone.
    clients = told(pynvml.nvmlDeviceGetMPSComputeRunningProcesses, device) or ()
    return foreign(sorted({process.pid for process in (*computing, *clients)}))


def foreign(pids: Sequence[int]) -> tuple[Neighbour, ...]:
    """Of processes on a device those that are neither this run's nor MPS's own."""
    named = ((pid, _name(pid)) for pid in pids if not _is_ours(pid))
    return tuple(Neighbour(pid=pid, name=name) for pid, name in named if name not in _MPS)


def _name(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        words = process.cmdline()
        return Path(words[0]).name if words and words[0] else process.name()
    except psutil.Error:
        return ""


def _is_ours(pid: int) -> bool:
    """Whether it descends from this process, or carries the mark of the same run."""
    try:
        process = psutil.Process(pid)
        if os.getpid() in (pid, *(parent.pid for parent in process.parents())):
            return True
        run_id = os.environ.get(MARKER)
        return run_id is not None and carries(pid, run_id)
    except (psutil.Error, OSError):
        return False
