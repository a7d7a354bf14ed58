from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tune_farm.client.share.host import host_cores


@given(cores=st.integers(1, 64), clients=st.integers(1, 48))
def test_every_client_has_a_core_and_somewhere_to_build(cores: int, clients: int) -> None:
    found = host_cores(range(cores), clients)

    assert len(found) == clients
    for measure, build in found:
        assert len(measure) == 1
        assert build
    built_on = [core for _, build in found for core in build]
    assert max(map(built_on.count, built_on)) <= -(-clients // cores) + 1


def test_where_there_are_enough_cores_nobody_builds_where_a_device_is_driven() -> None:
    found = host_cores(range(16), 4)

    driven = {core for measure, _ in found for core in measure}
    built_on = [core for _, build in found for core in build]
    assert len(driven) == 4
    assert sorted(built_on) == [core for core in range(16) if core not in driven]


def test_two_cores_serve_four_clients() -> None:
    assert host_cores((3, 5), 4) == [((3,), (3,)), ((5,), (5,)), ((3,), (3,)), ((5,), (5,))]
