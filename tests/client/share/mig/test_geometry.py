from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles.nvml.machine import H100_PROFILES
from tune_farm.client.share.mig.geometry import (
    Capacity,
    Placement,
    Profile,
    choose_for_clients,
    choose_named,
)
from tune_farm.tuner.errors import EnvironmentUnusableError, UsageError

PROFILES = tuple(
    Profile(
        id=kind.id,
        name=kind.name,
        slices=kind.slices,
        sm_count=kind.sms,
        memory_bytes=kind.memory_mb << 20,
        left=kind.most,
        placements=tuple(Placement(start=start, size=kind.size) for start in kind.starts),
    )
    for kind in H100_PROFILES
)
BY_NAME = {profile.name: profile for profile in PROFILES}


def h100(*taken: tuple[int, int]) -> Capacity:
    """An H100 with instances at (start, size)."""
    places = tuple(Placement(start=start, size=size) for start, size in taken)
    return Capacity(gpu="GPU-a", name="NVIDIA H100", profiles=PROFILES, taken=places)


@pytest.mark.parametrize(
    ("clients", "profile"),
    [
        (1, "7g.80gb"),
        (2, "3g.40gb"),
        (3, "2g.20gb"),
        (4, "1g.20gb"),
        (5, "1g.10gb"),
        (7, "1g.10gb"),
    ],
)
def test_each_client_gets_as_many_sms_as_so_many_can(clients: int, profile: str) -> None:
    parts = choose_for_clients(h100(), clients).parts

    assert [part.profile.name for part in parts] == [profile] * clients


def test_what_is_there_stays() -> None:
    geometry = choose_for_clients(h100((0, 4)), 2)

    assert [part.profile.name for part in geometry.parts] == ["1g.20gb"] * 2
    assert sorted(part.placement.start for part in geometry.parts) == [4, 6]
    assert geometry.stays == 1


@pytest.mark.parametrize(
    ("taken", "clients", "cause"),
    [
        ((), 8, "at most 7 can"),
        (((0, 4),), 4, "beside 1 MIG instance .*: at most 3 can"),
    ],
)
def test_more_than_fit(taken: tuple[tuple[int, int], ...], clients: int, cause: str) -> None:
    with pytest.raises(EnvironmentUnusableError, match=cause) as caught:
        choose_for_clients(h100(*taken), clients)

    assert caught.value.exit_code == 5
    assert f"--clients {cause.split()[-2]}" in caught.value.remedy


def test_a_full_gpu() -> None:
    with pytest.raises(EnvironmentUnusableError, match="there is no room"):
        choose_for_clients(h100((0, 8)), 1)


def test_named_profiles_are_laid_out_the_largest_first() -> None:
    parts = choose_named(h100(), ["1g.10gb", " 3g.40gb", "MIG 2g.20gb", "19"]).parts

    assert [part.profile.name for part in parts] == ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]


def test_the_place_is_chosen_that_leaves_most_room() -> None:
    (small,) = choose_named(h100(), ["1g.10gb"]).parts

    assert small.placement.start == 6
    left = h100((small.placement.start, small.placement.size))
    assert len(choose_named(left, ["4g.40gb", "2g.20gb"]).parts) == 2


def test_what_does_not_fit_together() -> None:
    with pytest.raises(EnvironmentUnusableError, match="do not fit together") as caught:
        choose_named(h100(), ["4g.40gb", "3g.40gb", "1g.10gb"])

    assert "room for 1 x 4g.40gb, 2 x 3g.40gb, 7 x 1g.10gb" in caught.value.cause


def test_an_unknown_profile_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no MIG profile '1g\.11gb'") as caught:
        choose_named(h100(), ["1g.11gb"])

    assert caught.value.remedy.startswith("did you mean 1g.10gb? it has 1g.10gb, 1g.10gb+me")


def test_nothing_is_asked_for() -> None:
    with pytest.raises(UsageError, match="no MIG profile was named"):
        choose_named(h100(), [])
    with pytest.raises(UsageError, match="cannot tune"):
        choose_for_clients(h100(), 0)


def test_what_will_be_created_can_be_read_before() -> None:
    assert choose_named(h100((0, 1)), ["3g.40gb", "1g.10gb"]).lines() == (
        "creating 2 MIG instances on GPU-a (NVIDIA H100), beside 1 MIG instance already there; "
        "destroyed at the end:",
        "  3g.40gb: 3 slices, 60 SMs, 39.5 GiB, at memory slices 4-7",
        "  1g.10gb: 1 slice, 16 SMs, 9.8 GiB, at memory slice 1",
    )


@settings(deadline=None, max_examples=60)
@given(
    names=st.lists(st.sampled_from(sorted(BY_NAME)), min_size=1, max_size=4),
    taken=st.sampled_from([(), ((0, 1),), ((4, 4),), ((2, 2), (6, 1))]),
)
def test_a_layout_is_found_exactly_where_there_is_one(
    names: list[str], taken: tuple[tuple[int, int], ...]
) -> None:
    capacity = h100(*taken)
    wanted = [BY_NAME[name] for name in names]
    allowed = all(wanted.count(kind) <= kind.left for kind in wanted)
    possible = allowed and any(
        not any(a.overlaps(b) for a, b in itertools.combinations((*places, *capacity.taken), 2))
        for places in itertools.product(*(kind.placements for kind in wanted))
    )

    try:
        parts = choose_named(capacity, names).parts
    except EnvironmentUnusableError:
        assert not possible
        return
    assert possible
    assert sorted(part.profile.name for part in parts) == sorted(names)
    places = [part.placement for part in parts]
    assert not any(a.overlaps(b) for a, b in itertools.combinations((*places, *capacity.taken), 2))
    assert all(part.placement in part.profile.placements for part in parts)
