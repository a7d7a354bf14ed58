"""What a law must know of a processor; measured or read on the machine, never a table of models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """The cores of one share, and what is between them and memory."""

    cores: int
    clock_hertz: float
    vector_bytes: int  # one register
    vector_registers: int
    fused_multiply_adds: int  # vector instructions a cycle
    loads: int  # vector loads a cycle
    latency_cycles: float  # of a multiply-add
    forward_cycles: float  # from a store to a load of the same bytes
    window: int  # instructions in flight
    cache_bytes: tuple[int, ...]  # of one core, nearest first; the last one may be shared
    cache_sets: tuple[int, ...]
    #: Bytes a cycle that one core gets from beyond each cache; the last is memory's.
    refill_bytes_per_cycle: tuple[float, ...]

    def __post_init__(self) -> None:
        assert len(self.cache_bytes) == len(self.cache_sets), self
        assert len(self.cache_bytes) == len(self.refill_bytes_per_cycle), self


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """The streaming multiprocessors of one share, and the memory that all of them share."""

    sms: int  # of the share
    total_sms: int  # of the whole device: its memory bandwidth serves all of them
    clock_hertz: float
    fused_multiply_adds: int  # of one SM in a cycle, at the kernel's data type
    max_threads: int  # of an SM
    max_blocks: int  # of an SM
    max_block_threads: int
    registers: int  # of an SM, 32 bits each
    max_thread_registers: int
    shared_bytes: int  # of an SM
    max_block_shared_bytes: int  # as the device allows it, opt-in included
    l2_bytes: int
    l2_bytes_per_second: float
    dram_bytes_per_second: float
    warp: int = 32
    partitions: int = 4  # warp schedulers of an SM
    shared_bytes_per_cycle: float = 128.0  # an SM's L1 and shared memory, which are one
    #: Of one SM in a cycle, operands of 16 bits, sums of 32, as `mma.sync` reaches them: 1,024 on
    #: compute capability 8.0 (NVIDIA A100 Tensor Core GPU Architecture, 2020, table 3).
    tensor_multiply_adds: int = 1024
    load_lanes: int = 16  # load/store units of an SM: threads whose loads it starts in a cycle

    def multiply_adds(self, *, on_tensor_cores: bool) -> int:
        """The peak of one SM in a cycle."""
        return self.tensor_multiply_adds if on_tensor_cores else self.fused_multiply_adds

    def __post_init__(self) -> None:
        assert 1 <= self.sms <= self.total_sms, self
