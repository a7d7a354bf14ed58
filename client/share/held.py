"""What a device is, also where MPS's server holds it: EXCLUSIVE_PROCESS lets nobody else in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tune_farm.client.devices.cuda_driver import CudaDevice
from tune_farm.client.devices.granted import GpuPlace
from tune_farm.client.share.mps.daemon import Daemon, listening
from tune_farm.client.share.mps.errors import MpsError, MpsProblem
from tune_farm.client.share.prove import ask_as_client, ask_whole

_WHOLE = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """All of a GPU or MIG instance."""

    device: CudaDevice
    holder: Daemon | None  # whoever works on the device has to be its client; None: nobody has to


def find_whole(place: GpuPlace, environment: Mapping[str, str], folder: Path) -> Whole:
    """Ask the driver; through MPS where that alone is let in.

    Args:
        place: the device.
        environment: of this process: where a daemon is that was set up for it.
        folder: for what processes write that ask.

    Raises:
        MpsError: the device can't be had.
    """
    try:
        return Whole(device=ask_whole(place, folder), holder=None)
    except MpsError as busy:
        if busy.problem is not MpsProblem.EXCLUSIVE:
            raise
        holder = _holder(place, environment, busy)
    device = ask_as_client(holder, place, folder)
    if holder.ceiling_percent < _WHOLE:
        known = place.instance.sm_count if place.instance is not None else place.gpu.sm_count
        if known is None:
            raise MpsError(
                MpsProblem.EXCLUSIVE,
                f"the MPS daemon in {holder.control.pipe_directory} holds {place.uuid} and gives "
                f"{holder.ceiling_percent:g}% of it: how many SMs all of it has nobody tells",
            )
        device = replace(device, sm_count=known)
    return Whole(device=device, holder=holder)


def _holder(place: GpuPlace, environment: Mapping[str, str], busy: MpsError) -> Daemon:
    try:
        daemon = listening(place, environment)
    except MpsError as error:
        if error.problem is MpsProblem.NO_BINARY:
            raise busy from None  # whoever holds it, it is no MPS that could be asked
        raise
    if daemon is None:
        raise busy
    return daemon
