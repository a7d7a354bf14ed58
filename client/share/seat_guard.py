"""Stands at both ends of a child's life on a GPU: is its share in force, does it leave well."""

from __future__ import annotations

import logging

from tune_farm.client.devices.clocks import ClockReader
from tune_farm.client.share.lane import Lane
from tune_farm.client.share.lane_guard import LaneGuard
from tune_farm.client.share.mps.errors import MpsError, MpsProblem
from tune_farm.client.share.mps.handshake import Attached
from tune_farm.client.share.seat import GpuSeat
from tune_farm.tuner.children.spawn import Child
from tune_farm.tuner.measure.guard import NotYetError
from tune_farm.tuner.types import Clocks

_LOG = logging.getLogger(__name__)

_HANDSHAKE_SECONDS = 15.0
#: A server recovers when all whom a fault hit are gone; one that starts, or ends a client, too.
_PASSING = (MpsProblem.FAULT, MpsProblem.NOT_READY)


class SeatGuard(LaneGuard):
    """Of the children of one slot; implements `tuner.measure.guard.Guard`."""

    def __init__(self, lane: Lane, seat: GpuSeat) -> None:
        super().__init__(lane)
        self._seat = seat
        self._clocks = ClockReader(seat.expected.uuid)

    def greet(self, child: Child) -> None:
        """Let a child begin if it is under its share.

        Raises:
            MpsError: the share is not in force.
            NotYetError: the server recovers from a fault.
            ChildDiedError: it ended meanwhile.
            ChildSilentError: it said nothing.
        """
        attached = child.receive(_HANDSHAKE_SECONDS)
        assert isinstance(attached, Attached)
        try:
            self._seat.admit(attached)
        except MpsError as error:
            if error.problem in _PASSING:
                raise NotYetError from error
            raise
        child.send("begin")

    def clocks(self) -> Clocks | None:
        """The GPU's now; None: its driver does not answer."""
        return self._clocks.read()

    def part(self, child: Child) -> None:
        """Have a child leave MPS, then end it; where the daemon does not answer, all the same."""
        try:
            self._seat.dismiss(child.pid)
        except MpsError as error:
            _LOG.warning("%s was killed while MPS may still know it: %s", child.name, error.cause)
        child.kill()
