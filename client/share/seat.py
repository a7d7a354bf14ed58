"""One client's share of a GPU: what its children are born with, and proof that it is in force."""

from __future__ import annotations

from dataclasses import dataclass

from tune_farm.client.share.mps.control import Control
from tune_farm.client.share.mps.handshake import Attached, Expected, verify
from tune_farm.client.share.mps.leave import leave
from tune_farm.client.share.whole import verify_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSeat:
    """Of a GPU or MIG instance."""

    expected: Expected
    environment: tuple[tuple[str, str], ...]  # that children are born with
    control: Control | None  # of the daemon that divides the device; None: it is undivided

    def admit(self, attached: Attached) -> int:
        """The SMs that a child may use, if the share is in force.

        Args:
            attached: what the child says it was given; it must still run.

        Raises:
            MpsError: it is not.
        """
        if self.control is None:
            return verify_whole(attached, self.expected)
        return verify(attached, self.expected, self.control)

    def dismiss(self, pid: int) -> None:
        """End a child's work on the device, before it is killed.

        Raises:
            MpsError: the daemon does not answer as it should.
        """
        if self.control is not None:
            leave(self.control, pid)
