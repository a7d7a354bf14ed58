"""What puts a client's children under their share of a GPU, and proves that they are."""

from __future__ import annotations

from dataclasses import dataclass

from tune_farm.client.share.lane import Lane
from tune_farm.client.share.lane_guard import LaneGuard
from tune_farm.client.share.mps.control import Control
from tune_farm.client.share.mps.guard import ShareGuard
from tune_farm.client.share.mps.handshake import Expected
from tune_farm.client.share.whole import WholeGuard


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSeat:
    """One client's share of a GPU or MIG instance."""

    expected: Expected
    environment: tuple[tuple[str, str], ...]  # that children are born with
    control: Control | None  # of the daemon that divides the device; None: it is undivided

    def guard(self, lane: Lane) -> LaneGuard:
        """What stands at both ends of a child's life."""
        if self.control is None:
            return WholeGuard(lane, expected=self.expected)
        return ShareGuard(lane, control=self.control, expected=self.expected)
