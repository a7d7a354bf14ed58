"""The place of one client: a share of a device, and the host's cores that serve it."""

from __future__ import annotations

from dataclasses import dataclass

from tune_farm.client.share.seat import GpuSeat
from tune_farm.tuner.types import Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where one client measures and builds."""

    name: str  # "client-0"
    measure_cores: tuple[int, ...]  # of a CPU's share: this client's alone; else the host's
    build_cores: tuple[int, ...]  # never a core that any client times on, unless `alternates`
    share: Share
    gpu: str | None = None  # UUID of the GPU or MIG instance; None: the CPU is the device
    seat: GpuSeat | None = None  # of a GPU that exists

    def __post_init__(self) -> None:
        assert self.gpu or len(self.measure_cores) == self.share.granted, self
        assert self.build_cores, self

    @property
    def alternates(self) -> bool:
        """Whether builds run on the cores that are timed, none being left: they take turns."""
        return self.gpu is None and self.build_cores == self.measure_cores
