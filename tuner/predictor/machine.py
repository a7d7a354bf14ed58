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
    cache_bytes: tuple[int, ...]  # of one core, nearest first; the last one may be shared
    #: Bytes a cycle that one core gets from beyond each cache; the last is memory's.
    refill_bytes_per_cycle: tuple[float, ...]

    def __post_init__(self) -> None:
        assert len(self.cache_bytes) == len(self.refill_bytes_per_cycle), self
