from __future__ import annotations

from tune_farm.client.share.slot import Slot
from tune_farm.server.lanes import lane, lanes
from tune_farm.tuner.types import Share


def slot(gpu: str | None, percent: int) -> Slot:
    share = Share(kind="mps" if gpu else "cores", asked_percent=percent, granted=1, total=4)
    return Slot(name="client-0", measure_cores=(0,), build_cores=(0,), share=share, gpu=gpu)


def test_clients_take_their_shares_of_each_device() -> None:
    slots = [slot("GPU-a", 40), slot("GPU-a", 40), slot("MIG-b", 50)]

    assert lanes(slots) == {"percent of GPU-a": 100.0, "percent of MIG-b": 100.0}
    assert lane(slots[2]) == {"percent of MIG-b": 50.0}


def test_what_is_oversubscribed_offers_more_than_all_of_it() -> None:
    assert lanes([slot("GPU-a", 60)] * 3) == {"percent of GPU-a": 180.0}


def test_a_cpu_is_a_device_like_others() -> None:
    assert lanes([slot(None, 50)] * 2) == {"percent of cpu": 100.0}
