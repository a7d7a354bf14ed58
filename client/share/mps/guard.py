"""Stands at both ends of a child's life under MPS: is its share in force, does it leave well."""

from __future__ import annotations

import logging

from tune_farm.client.share.lane import Lane
from tune_farm.client.share.lane_guard import LaneGuard
from tune_farm.client.share.mps.control import Control
from tune_farm.client.share.mps.errors import MpsError, MpsProblem
from tune_farm.client.share.mps.handshake import Attached, Expected, verify
from tune_farm.client.share.mps.leave import leave
from tune_farm.tuner.children.spawn import Child
from tune_farm.tuner.measure.guard import NotYetError

_LOG = logging.getLogger(__name__)

_HANDSHAKE_SECONDS = 15.0


class ShareGuard(LaneGuard):
    """Of the children of one slot; implements `tuner.measure.guard.Guard`."""

    def __init__(self, lane: Lane, *, control: Control, expected: Expected) -> None:
        """Begin.

        Args:
            lane: of the device.
            control: the daemon that children are clients of.
            expected: the share.
        """
        super().__init__(lane)
        self._control = control
        self._expected = expected

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
            verify(attached, self._expected, self._control)
        except MpsError as error:
            if error.problem is MpsProblem.FAULT:
                raise NotYetError from error
            raise
        child.send("begin")

    def part(self, child: Child) -> None:
        """Have a child leave MPS, then end it; where the daemon does not answer, all the same."""
        try:
            leave(self._control, child.pid)
        except MpsError as error:
            _LOG.warning("%s was killed while MPS may still know it: %s", child.name, error.cause)
        child.kill()
