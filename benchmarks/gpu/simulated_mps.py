"""A simulated GPU's clock, and an MPS daemon that answers in the words of NVIDIA's command.

The real parser reads them. Clocks are made up: a recovery that takes a second takes none here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tune_farm.client.devices.cuda_driver import CudaDevice
from tune_farm.client.share.mps.control import Control
from tune_farm.client.share.mps.handshake import Attached
from tune_farm.client.sim.gpus import SimulatedGpu

_UUID = "GPU-51515151-5151-5151-5151-515151515151"
CHUNK_SMS = 8
_CONTROL_SECONDS, RECOVERY_SECONDS = 0.02, 0.8
_SERVER = 1000
_TERMINATED = 810


class World:
    """One simulated GPU and its clock."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu = gpu
        self.clock = 0.0  #: seconds since the check began
        self.end = 1e9  #: of the part, on that clock
        self.pids = 2000
        self.rng = np.random.default_rng(0)
        self.pumping = 0  #: clients that were told to pump and have not answered yet
        self.most_pumping = 0  #: the most of them since none was

    def noisy(self, seconds: float) -> float:
        """One measurement."""
        noise = self.gpu.behavior.noise * float(self.rng.standard_normal())
        return max(1e-9, seconds * (1 + noise))

    def attached(self, pid: int, sms: int, error: int = 0) -> Attached:
        """What a process says of itself."""
        if error:
            text = f"cuDevicePrimaryCtxRetain: SIMULATED ({error})"
            return Attached(pid=pid, devices=(), error_number=error, error=text)
        return Attached(pid=pid, devices=(replace(self.device(), sm_count=sms),))

    def device(self) -> CudaDevice:
        """All of it."""
        machine = self.gpu.machine
        return CudaDevice(
            uuid=_UUID,
            name=self.gpu.name,
            sm_count=machine.total_sms,
            memory_bytes=self.gpu.memory_bytes,
            compute_capability=self.gpu.compute_capability,
            clock_hertz=machine.clock_hertz,
            memory_clock_hertz=machine.dram_bytes_per_second / 2 / 640,
            memory_bus_bits=5120,
            l2_bytes=machine.l2_bytes,
            threads_per_sm=machine.max_threads,
            blocks_per_sm=machine.max_blocks,
            threads_per_block=machine.max_block_threads,
            warp=machine.warp,
            cuda=13000,
            registers_per_sm=machine.registers,
            shared_bytes_per_sm=machine.shared_bytes,
            shared_bytes_per_block=machine.max_block_shared_bytes,
        )


@dataclass(slots=True, kw_only=True)
class Context:
    """What a process has on the GPU."""

    error: int = 0  #: that stays


@dataclass(slots=True, kw_only=True)
class Server:
    """An MPS daemon's state."""

    static: bool
    clients: dict[int, Context] = field(default_factory=dict)  #: by pid
    partitions: dict[str, int] = field(default_factory=dict)  #: chunks, by name
    numbers: int = 0
    is_faulty: bool = False
    sound_again: float = 0.0  #: on the world's clock

    def state(self, now: float) -> str:
        """As `get_server_status` tells it."""
        if self.is_faulty and not self.clients and now >= self.sound_again:
            self.is_faulty = False
        return "FAULT" if self.is_faulty else "ACTIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedControl(Control):
    """A daemon that exists as a `Server` only."""

    world: World
    server: Server

    def ask(self, command: str) -> str:
        """What NVIDIA's command would print."""
        self.world.clock += _CONTROL_SECONDS
        verb, *rest = command.split()
        match verb:
            case "get_server_list":
                return f"{_SERVER}\n"
            case "get_server_status":
                return f"{self.server.state(self.world.clock)}\n"
            case "get_default_active_thread_percentage" | "get_active_thread_percentage":
                return "100.0\n"
            case "get_client_list":
                return "".join(f"{pid}\n" for pid in self.server.clients)
            case "terminate_client":
                self.server.clients[int(rest[1])].error = _TERMINATED
                return "CUDA_SUCCESS\n"
            case "sm_partition":
                return self._partition(*rest)
            case "lspart":
                lines = (
                    f"{name} {chunks} {chunks * CHUNK_SMS}"
                    for name, chunks in self.server.partitions.items()
                )
                return "\n".join(["PARTITION CHUNKS SMS", *lines])
            case _:
                return ""

    def _partition(self, verb: str, gpu: str, number: str) -> str:
        partitions, total = self.server.partitions, self.world.gpu.machine.total_sms
        if verb == "rm":
            del partitions[f"{gpu}/{number}"]
            return ""
        if (sum(partitions.values()) + int(number)) * CHUNK_SMS > total:
            return f"Failed to fulfill the requested SM partition of {number} chunks"
        self.server.numbers += 1
        partitions[f"{gpu}/{self.server.numbers}"] = int(number)
        return f"{gpu}/{self.server.numbers}\n"
