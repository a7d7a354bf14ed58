from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tune_farm.client.share.cores import describe, plan_slots
from tune_farm.client.share.slot import Slot
from tune_farm.tuner.errors import UsageError

core_lists = st.lists(st.integers(0, 511), min_size=1, max_size=128, unique=True)
percents = st.integers(1, 100)


def layout(slots: tuple[Slot, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(slot.measure_cores, slot.build_cores) for slot in slots]


def test_forty_percent_of_two_cores_is_two_clients_that_alternate() -> None:
    slots = plan_slots([0, 1], 40, None)

    assert layout(slots) == [((0,), (0,)), ((1,), (1,))]
    assert [slot.name for slot in slots] == ["client-0", "client-1"]
    assert all(slot.alternates for slot in slots)
    assert describe(slots, "AMD EPYC") == (
        "tuning for this CPU (AMD EPYC), 40% = 1 of 2 cores, 2 clients; "
        "builds and timings alternate"
    )


def test_spare_cores_go_to_the_builders() -> None:
    slots = plan_slots(range(8), 25, 2)

    assert layout(slots) == [((0, 1), (4, 5)), ((2, 3), (6, 7))]
    assert describe(slots, "X").endswith("25% = 2 of 8 cores, 2 clients; builds on 4 other cores")


def test_too_few_spare_cores_are_shared_round_robin() -> None:
    slots = plan_slots(range(10), 30, 3)

    assert [slot.build_cores for slot in slots] == [(9,), (9,), (9,)]
    assert describe(slots, "X").endswith("3 clients; builds on 1 other core")


def test_one_core_is_one_client() -> None:
    slots = plan_slots([7], 1, None)

    assert layout(slots) == [((7,), (7,))]
    assert describe(slots, "X").endswith("1% = 1 of 1 core, 1 client; builds and timings alternate")


@pytest.mark.parametrize(("percent", "clients", "fitting"), [(40, 3, 2), (60, 2, 1), (100, 9, 1)])
def test_more_clients_than_fit_name_both_numbers(percent: int, clients: int, fitting: int) -> None:
    with pytest.raises(UsageError) as caught:
        plan_slots([0, 1], percent, clients)

    assert f"{clients} clients of {percent}%" in caught.value.cause
    assert f"at most {fitting}" in caught.value.cause
    assert f"--clients {fitting}" in caught.value.remedy


@pytest.mark.parametrize(("percent", "clients"), [(0, None), (101, None), (50, 0), (50, -1)])
def test_impossible_numbers_are_the_users_mistake(percent: int, clients: int | None) -> None:
    with pytest.raises(UsageError):
        plan_slots([0, 1], percent, clients)


@given(cores=core_lists, percent=percents)
def test_measuring_cores_are_never_shared(cores: list[int], percent: int) -> None:
    slots = plan_slots(cores, percent, None)

    measuring = [core for slot in slots for core in slot.measure_cores]
    building = {core for slot in slots for core in slot.build_cores}
    assert len(measuring) == len(set(measuring))
    assert set(measuring) | building == set(cores)
    if not slots[0].alternates:
        assert building.isdisjoint(measuring)
    assert len({slot.alternates for slot in slots}) == 1


@given(cores=core_lists, percent=percents)
def test_the_granted_share_is_the_asked_one_rounded_down(cores: list[int], percent: int) -> None:
    slots = plan_slots(cores, percent, None)

    for slot in slots:
        assert len(slot.measure_cores) == slot.share.granted
        assert slot.share.asked_percent == percent
        assert slot.share.total == len(cores)
        assert slot.share.granted == max(1, len(cores) * percent // 100)
    assert len(slots) * percent <= 100


@given(cores=core_lists, percent=percents, clients=st.integers(1, 200))
def test_a_number_of_clients_is_kept_or_refused(
    cores: list[int], percent: int, clients: int
) -> None:
    fitting = len(plan_slots(cores, percent, None))
    if clients <= fitting:
        assert len(plan_slots(cores, percent, clients)) == clients
    else:
        with pytest.raises(UsageError):
            plan_slots(cores, percent, clients)


@given(cores=core_lists, percent=percents, clients=st.integers(1, 100))
def test_builders_get_even_parts(cores: list[int], percent: int, clients: int) -> None:
    assume(clients <= len(plan_slots(cores, percent, None)))
    sizes = [len(slot.build_cores) for slot in plan_slots(cores, percent, clients)]

    assert max(sizes) - min(sizes) <= 1
