"""Proves that a process has all of a GPU or MIG instance: the right one, and undivided."""

from __future__ import annotations

from tune_farm.client.devices.cuda_driver import same_device
from tune_farm.client.share.mps.errors import MpsError, MpsProblem
from tune_farm.client.share.mps.handshake import Attached, Expected


def verify_whole(attached: Attached, expected: Expected) -> int:
    """Compare what a process was given with what it was meant to get.

    Args:
        attached: what it says.
        expected: the device.

    Returns:
        The SMs that it may use: all.

    Raises:
        MpsError: it is another device, or not all of it.
    """
    if attached.error:
        raise MpsError.of_cuda(attached.error_number, f"{expected.uuid}: {attached.error}")
    device = attached.devices[0]
    if not same_device(device.uuid, expected.uuid):
        raise MpsError(
            MpsProblem.WRONG_DEVICE, f"the client got {device.uuid} instead of {expected.uuid}"
        )
    if device.sm_count != expected.total:
        raise MpsError(
            MpsProblem.NOT_IN_FORCE,
            f"the client may use {device.sm_count} of {expected.total} SMs, not all of them",
        )
    return device.sm_count
