"""Ways to divide one GPU or MIG instance among clients: not at all, by percentage, by partition."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tune_farm.client.devices.granted import GpuPlace
from tune_farm.client.share.mps.control import find_binary
from tune_farm.client.share.mps.daemon import Daemon, start, stop
from tune_farm.client.share.mps.errors import MpsError, MpsProblem
from tune_farm.client.share.mps.handshake import Expected
from tune_farm.client.share.plan import GpuSlot
from tune_farm.client.share.prove import without_mps
from tune_farm.client.share.seat import GpuSeat
from tune_farm.tuner.types import ShareKind

_WHOLE = 100.0


class Division(Protocol):
    """Of one device."""

    @property
    def ceiling_percent(self) -> float:
        """No client gets more."""
        ...

    @property
    def kind(self) -> ShareKind:
        """What records call it."""
        ...

    def seat(self, slot: GpuSlot) -> GpuSeat:
        """Set a client's share aside."""
        ...


class Undivided:
    """One client has all of it."""

    ceiling_percent = _WHOLE

    def __init__(self, *, is_mig: bool, folder: Path) -> None:
        self.kind: ShareKind = "mig" if is_mig else "whole"
        self._folder = folder

    def seat(self, slot: GpuSlot) -> GpuSeat:
        """All of it, whatever MPS daemon there is."""
        return GpuSeat(
            expected=Expected(uuid=slot.uuid, total=slot.total, percent=_WHOLE),
            environment=tuple(without_mps(slot.uuid, self._folder).items()),
            control=None,
        )


class ByPercentage:
    """An active thread percentage for each client: a limit, and no SM is anybody's alone."""

    kind: ShareKind = "mps"

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    @property
    def ceiling_percent(self) -> float:
        """What the daemon gives at most."""
        return self._daemon.ceiling_percent

    def seat(self, slot: GpuSlot) -> GpuSeat:
        """The percentage, and a part of the memory."""
        born = self._daemon.environment(slot.asked_percent, memory_bytes=slot.memory_bytes)
        return GpuSeat(
            expected=Expected(uuid=slot.uuid, total=slot.total, percent=slot.asked_percent),
            environment=tuple(born.items()),
            control=self._daemon.control,
        )


class ByPartition:
    """Static partitions: SMs that are one client's alone, in chunks (MPS documentation, 13.1)."""

    kind: ShareKind = "mps-static"
    ceiling_percent = _WHOLE

    def __init__(self, daemon: Daemon, chunk_sms: int) -> None:
        """Divide.

        Args:
            daemon: started for static partitions.
            chunk_sms: SMs of one chunk.
        """
        self._daemon = daemon
        self._chunk_sms = chunk_sms

    def seat(self, slot: GpuSlot) -> GpuSeat:
        """As many whole chunks as the percentage holds, one at least.

        Raises:
            MpsError: not so many are left.
        """
        chunks = max(1, slot.total * slot.asked_percent // (100 * self._chunk_sms))
        name = self._daemon.control.add_partition(slot.uuid, chunks)
        (own,) = (each for each in self._daemon.control.partitions() if each.name == name)
        born = self._daemon.environment(None, own.name, memory_bytes=slot.memory_bytes)
        expected = Expected(
            uuid=slot.uuid, total=slot.total, percent=slot.asked_percent, sms=own.sms
        )
        return GpuSeat(
            expected=expected, environment=tuple(born.items()), control=self._daemon.control
        )


def start_partitioned(
    place: GpuPlace, environment: Mapping[str, str], root: Path | None
) -> tuple[Daemon, ByPartition]:
    """Start a daemon with static partitions; whether the driver has them is found out by trying.

    Args:
        place: the device.
        environment: of this process.
        root: where the daemon's folder is made; None: in /tmp.

    Raises:
        MpsError: it has none, or there is no daemon to be had.
    """
    binary = find_binary(environment.get("PATH", os.defpath))
    daemon = start(place, binary, environment, static=True, root=root)
    try:
        name = daemon.control.add_partition(place.uuid, 1)
        (one,) = (each for each in daemon.control.partitions() if each.name == name)
        daemon.control.remove_partition(name)
    except (MpsError, ValueError) as error:
        stop(daemon)
        raise MpsError(
            MpsProblem.NO_PARTITIONS, f"this driver's MPS gives no static partition: {error}"
        ) from None
    return daemon, ByPartition(daemon, one.sms)
