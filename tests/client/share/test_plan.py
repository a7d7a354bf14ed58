from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tune_farm.client.share.plan import GpuOffer, context_limit, plan_gpu_slots
from tune_farm.tuner.errors import EnvironmentUnusableError, UsageError

H100 = GpuOffer(uuid="GPU-a", total=132, memory_bytes=80 << 30, is_mig=False)
OTHER = GpuOffer(uuid="GPU-b", total=132, memory_bytes=80 << 30, is_mig=False)
SLICE = GpuOffer(uuid="MIG-a", total=16, memory_bytes=10 << 30, is_mig=True, slices=(1, 7))


@given(percent=st.integers(1, 100), devices=st.integers(1, 4))
def test_shares_of_a_device_never_add_up_to_more_than_all_of_it(percent: int, devices: int) -> None:
    offers = [
        GpuOffer(uuid=f"GPU-{index}", total=132, memory_bytes=80 << 30, is_mig=False)
        for index in range(devices)
    ]

    slots = plan_gpu_slots(offers, percent, None)

    for offer in offers:
        own = [slot for slot in slots if slot.uuid == offer.uuid]
        assert sum(slot.asked_percent for slot in own) <= 100
        assert sum(slot.memory_bytes for slot in own) <= offer.memory_bytes
        assert len(own) <= context_limit(offer)
    assert len({slot.name for slot in slots}) == len(slots)


def test_few_clients_have_few_neighbours() -> None:
    slots = plan_gpu_slots([H100, OTHER], 25, 3)

    assert [slot.uuid for slot in slots] == ["GPU-a", "GPU-b", "GPU-a"]
    assert [slot.name for slot in slots] == ["client-0", "client-1", "client-2"]


@pytest.mark.parametrize(
    "sizes", [(1,) * 7, (3, 4), (2, 1, 1)], ids=["1g x 7", "3g and 4g", "mixed"]
)
def test_one_client_lands_on_each_mig_instance(sizes: tuple[int, ...]) -> None:
    offers = [
        GpuOffer(
            uuid=f"MIG-{index}",
            total=16 * size,
            memory_bytes=10 << 30,
            is_mig=True,
            slices=(size, 7),
        )
        for index, size in enumerate(sizes)
    ]

    slots = plan_gpu_slots(offers, 100, None)

    assert [slot.uuid for slot in slots] == [offer.uuid for offer in offers]
    assert [slot.total for slot in slots] == [16 * size for size in sizes]


def test_more_clients_than_fit_are_refused_unless_asked_for() -> None:
    with pytest.raises(UsageError, match="at most 2 can"):
        plan_gpu_slots([H100], 40, 3)

    assert len(plan_gpu_slots([H100], 40, 3, oversubscribes=True)) == 3


@pytest.mark.parametrize(
    ("offer", "most"),
    [
        (H100, 48),
        (GpuOffer(uuid="GPU-n", total=132, memory_bytes=80 << 30, is_mig=False, cuda=13010), 60),
        (SLICE, 6),
    ],
)
def test_one_server_takes_so_many_contexts(offer: GpuOffer, most: int) -> None:
    assert context_limit(offer) == most
    with pytest.raises(UsageError, match="do not fit"):
        plan_gpu_slots([offer], 1, most + 1, oversubscribes=True)


def test_memory_bounds_the_clients() -> None:
    small = GpuOffer(uuid="GPU-s", total=40, memory_bytes=3 << 30, is_mig=False)

    assert len(plan_gpu_slots([small], 10, None)) == 3
    with pytest.raises(EnvironmentUnusableError, match="one client needs 1 GiB"):
        plan_gpu_slots(
            [GpuOffer(uuid="GPU-t", total=40, memory_bytes=1 << 29, is_mig=False)], 10, None
        )


def test_a_share_that_was_set_for_us_is_a_ceiling() -> None:
    slurm = GpuOffer(
        uuid="GPU-a", total=132, memory_bytes=80 << 30, is_mig=False, ceiling_percent=30
    )

    assert plan_gpu_slots([slurm], "auto", 1)[0].asked_percent == 30
    with pytest.raises(EnvironmentUnusableError, match="above the 30%"):
        plan_gpu_slots([slurm], 40, 1)


@pytest.mark.parametrize("percent", [0, 101, -5])
def test_no_percentage(percent: int) -> None:
    with pytest.raises(UsageError, match="give 1 to 100"):
        plan_gpu_slots([H100], percent, 1)


def test_no_client_is_none() -> None:
    with pytest.raises(UsageError, match="cannot tune"):
        plan_gpu_slots([H100], 50, 0)
