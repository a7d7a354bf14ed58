"""Divides the cores of one CPU into client slots: who times where, and who builds where."""

from __future__ import annotations

from collections.abc import Sequence

from tune_farm.client.share.host import part
from tune_farm.client.share.slot import Slot
from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.types import Share


def plan_slots(cores: Sequence[int], percent: int, clients: int | None) -> tuple[Slot, ...]:
    """Give each client its measuring cores, and what is left to the builders.

    Args:
        cores: the cores of the device; each once.
        percent: one client's share of the device, 1-100; rounded down to whole cores, at least one.
        clients: how many; None for as many as fit.

    Raises:
        UsageError: `percent` is no percentage, or more clients are asked for than fit.
    """
    total = len(cores)
    assert total == len(set(cores)) > 0, cores
    if not 1 <= percent <= 100:
        raise UsageError(f"a share of {percent}% is not possible", "give 1 to 100")
    granted = max(1, total * percent // 100)
    # Both bounds count: rounding up to one core must not sell a core twice, and two clients of 60%
    # are not "60% each" even where two cores could hold them.
    fitting = max(1, min(100 // percent, total // granted))
    count = fitting if clients is None else clients
    if count < 1:
        raise UsageError(f"{count} clients cannot tune", "give --clients 1 or more")
    if count > fitting:
        raise UsageError(
            f"{count} clients of {percent}% ({granted} of {_cores(total)} each) do not fit: "
            f"at most {fitting} can",
            f"use --clients {fitting} or a smaller --sm-share",
        )
    share = Share(kind="cores", asked_percent=percent, granted=granted, total=total)
    spare = tuple(cores[count * granted :])
    slots = []
    for index in range(count):
        measure = tuple(cores[index * granted : (index + 1) * granted])
        build = part(spare, index, count) if spare else measure
        slots.append(
            Slot(name=f"client-{index}", measure_cores=measure, build_cores=build, share=share)
        )
    return tuple(slots)


def describe(slots: Sequence[Slot], device_name: str) -> str:
    """The line that tells the user what the farm on this CPU looks like."""
    share = slots[0].share
    count = f"{len(slots)} client" + ("s" if len(slots) > 1 else "")
    if slots[0].alternates:
        builds = "builds and timings alternate"
    else:
        spare = {core for slot in slots for core in slot.build_cores}
        builds = f"builds on {len(spare)} other core" + ("s" if len(spare) > 1 else "")
    return (
        f"tuning for this CPU ({device_name}), {share.asked_percent}% = {share.granted} of "
        f"{_cores(share.total)}, {count}; {builds}"
    )


def _cores(total: int) -> str:
    return f"{total} core" + ("s" if total > 1 else "")
