"""Guards children that have all of a GPU or MIG instance: it is the right one, and undivided."""

from __future__ import annotations

from tune_farm.client.devices.cuda_driver import same_device
from tune_farm.client.share.lane import Lane
from tune_farm.client.share.lane_guard import LaneGuard
from tune_farm.client.share.mps.errors import MpsError, MpsProblem
from tune_farm.client.share.mps.handshake import Attached, Expected
from tune_farm.tuner.children.spawn import Child

_HANDSHAKE_SECONDS = 15.0


class WholeGuard(LaneGuard):
    """Of the children of one slot; implements `tuner.measure.guard.Guard`."""

    def __init__(self, lane: Lane, *, expected: Expected) -> None:
        super().__init__(lane)
        self._expected = expected

    def greet(self, child: Child) -> None:
        """Let a child begin if it was given the device, and all of it.

        Raises:
            MpsError: it was not.
            ChildDiedError: it ended meanwhile.
            ChildSilentError: it said nothing.
        """
        attached = child.receive(_HANDSHAKE_SECONDS)
        assert isinstance(attached, Attached)
        wanted = self._expected
        if attached.error:
            raise MpsError.of_cuda(attached.error_number, f"{wanted.uuid}: {attached.error}")
        device = attached.devices[0]
        if not same_device(device.uuid, wanted.uuid):
            raise MpsError(
                MpsProblem.WRONG_DEVICE, f"the client got {device.uuid} instead of {wanted.uuid}"
            )
        if device.sm_count != wanted.total:
            raise MpsError(
                MpsProblem.NOT_IN_FORCE,
                f"the client may use {device.sm_count} of {wanted.total} SMs, not all of them",
            )
        child.send("begin")
