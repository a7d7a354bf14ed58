"""What Ray's books say of the devices: each has a hundred percent, of which clients take shares.

Ray limits nothing by it, and its own count of GPUs knows neither shares nor MIG instances; it is
what the dashboard shows. Names are texts throughout: a UUID is no number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tune_farm.client.share.slot import Slot

_WHOLE = 100.0


def lane(slot: Slot) -> dict[str, float]:
    """What a client takes."""
    device = "cpu" if slot.gpu is None else slot.gpu
    return {f"percent of {device}": float(slot.share.asked_percent)}


def lanes(slots: Iterable[Slot]) -> dict[str, float]:
    """What a node has to offer them: all of each device, or more where it is oversubscribed."""
    found: dict[str, float] = defaultdict(float)
    for slot in slots:
        for name, percent in lane(slot).items():
            found[name] += percent
    return {name: max(_WHOLE, percent) for name, percent in found.items()}
