"""How many clients, at which share of which device: pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tune_farm.tuner.errors import EnvironmentUnusableError, UsageError

#: Contexts of one MPS server; CUDA 13.1 raised it (NVIDIA's MPS documentation, release 615).
CONTEXTS, CONTEXTS_SINCE_13_1, _CUDA_13_1 = 48, 60, 13010
#: What a context and a candidate's buffers need at least.
_LEAST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOffer:
    """One GPU or MIG instance that clients can be put on."""

    uuid: str
    total: int  # SMs
    memory_bytes: int
    is_mig: bool
    slices: tuple[int, int] = (1, 1)  # a MIG instance's compute slices, and those of its GPU
    ceiling_percent: float = 100.0  # set for us: by Slurm, a device plugin, or the daemon
    cuda: int = 13000  # the driver's version as CUDA writes it: 1000 * major + 10 * minor


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSlot:
    """The place of one client on a GPU."""

    name: str  # "client-0"
    uuid: str
    asked_percent: int
    total: int
    memory_bytes: int  # the client's part


def plan_gpu_slots(
    offers: Sequence[GpuOffer],
    percent: int | Literal["auto"],
    clients: int | None,
    *,
    oversubscribes: bool = False,
) -> tuple[GpuSlot, ...]:
    """Give each client a device and a share of it.

    Devices are filled in turn, so that few clients have few neighbours.

    Args:
        offers: what may be used; at least one.
        percent: one client's share of a device, 1-100, or "auto": what was set for us.
        clients: how many; None for as many as fit.
        oversubscribes: shares of one device may add up to more than all of it.

    Raises:
        UsageError: it is no percentage, or more clients are asked for than fit.
        EnvironmentUnusableError: the share is above a ceiling that was set for us, or memory is
            too small for a client.
    """
    assert offers
    share = min(int(offer.ceiling_percent) for offer in offers) if percent == "auto" else percent
    if not 1 <= share <= 100:
        raise UsageError(f"a share of {share}% is not possible", "give 1 to 100")
    for offer in offers:
        if share > offer.ceiling_percent:
            most = math.ceil(offer.total * offer.ceiling_percent / 100)
            raise EnvironmentUnusableError(
                f"a share of {share}% is above the {offer.ceiling_percent:g}% of {offer.uuid} "
                f"(at most {most} of {offer.total} SMs) that were set for this job",
                "give a smaller --sm-share, or --sm-share auto",
            )
    rooms = [_room(offer, share, oversubscribes) for offer in offers]
    fitting = sum(rooms)
    count = fitting if clients is None else clients
    if count < 1:
        raise UsageError(f"{count} clients cannot tune", "give --clients 1 or more")
    if count > fitting:
        raise UsageError(
            f"{count} clients of {share}% do not fit on {_devices(len(offers))}: at most "
            f"{fitting} can",
            f"use --clients {fitting}, a smaller --sm-share"
            + ("" if oversubscribes else ", or --oversubscribe (timings will disturb each other)"),
        )
    placed: list[GpuOffer] = []
    filled = dict.fromkeys((offer.uuid for offer in offers), 0)
    while len(placed) < count:
        for offer, room in zip(offers, rooms, strict=True):
            if len(placed) < count and filled[offer.uuid] < room:
                filled[offer.uuid] += 1
                placed.append(offer)
    return tuple(
        _slot(index, offer, share, filled[offer.uuid]) for index, offer in enumerate(placed)
    )


def context_limit(offer: GpuOffer) -> int:
    """Contexts that one MPS server of a device takes; in a MIG instance in proportion."""
    most = CONTEXTS_SINCE_13_1 if offer.cuda >= _CUDA_13_1 else CONTEXTS
    own, all_of_it = offer.slices
    return max(1, most * own // all_of_it) if offer.is_mig else most


def _room(offer: GpuOffer, percent: int, oversubscribes: bool) -> int:
    limits = [context_limit(offer), offer.memory_bytes // _LEAST_BYTES]
    if percent == 100:
        limits.append(1)  # two whole devices are no share
    elif not oversubscribes:
        limits.append(max(1, int(offer.ceiling_percent) // percent))  # of what is ours to divide
    room = min(limits)
    if room < 1:
        raise EnvironmentUnusableError(
            f"{offer.uuid} has {offer.memory_bytes / (1 << 30):.1f} GiB of memory, and one client "
            f"needs {_LEAST_BYTES >> 30} GiB",
            "choose another device",
        )
    return room


def _slot(index: int, offer: GpuOffer, percent: int, neighbours: int) -> GpuSlot:
    return GpuSlot(
        name=f"client-{index}",
        uuid=offer.uuid,
        asked_percent=percent,
        total=offer.total,
        memory_bytes=offer.memory_bytes // neighbours,
    )


def _devices(count: int) -> str:
    return f"{count} device" + ("" if count == 1 else "s")
