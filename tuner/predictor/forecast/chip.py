"""What a forecast must know of a GPU: the numbers of its data sheet, and nothing measured on it."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A GPU, a MIG instance of one, or the part of its SMs that a share grants."""

    name: str  # as the driver reports it
    compute_capability: str
    sms: int  # that may be used
    total_sms: int  # of the whole GPU: its power serves all of them
    fp32_lanes: int  # multiply-adds of one SM in a cycle
    clock_hertz: float  # boost
    dram_bytes_per_second: float
    memory_bytes: float
    memory_kind: str  # "HBM2", "GDDR6", …
    l2_bytes: float
    board_watts: float
    process_nanometers: int
    is_instance: bool = False  # of MIG: its memory slices are its own, the power it shares

    def __post_init__(self) -> None:
        assert 1 <= self.sms <= self.total_sms, self
        assert min(self.fp32_lanes, self.clock_hertz, self.dram_bytes_per_second) > 0, self
        assert min(self.memory_bytes, self.l2_bytes, self.board_watts) > 0, self

    @property
    def peak_flops(self) -> float:
        """FP32 outside tensor cores, of the SMs that may be used, per second."""
        return 2.0 * self.sms * self.fp32_lanes * self.clock_hertz

    @property
    def has_stacked_memory(self) -> bool:
        """Whether its DRAM is HBM, whose error correction costs no bandwidth."""
        return self.memory_kind.startswith("HBM")

    @property
    def generation(self) -> tuple[int, int]:
        """The compute capability as numbers that can be compared."""
        major, _, minor = self.compute_capability.partition(".")
        return int(major), int(minor)

    def share(self, percent: int) -> Chip:
        """The SMs that a percentage grants: pairs, rounded down, one pair at least.

        A share divides SMs only; memory, L2 and power serve all shares.
        """
        assert 1 <= percent <= 100, percent
        if percent == 100:
            return self
        return replace(self, sms=min(self.sms, max(2, self.sms * percent // 100 // 2 * 2)))
