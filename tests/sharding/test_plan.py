from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_farm.sharding.plan import assign

COSTS = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=4), st.floats(0, 1000), max_size=25
)
CLIENTS = st.lists(st.text("wxyz", min_size=1, max_size=3), unique=True, min_size=1, max_size=6)


def makespan(shards: dict[str, tuple[str, ...]], costs: dict[str, float]) -> float:
    return max(sum(costs[task] for task in tasks) for tasks in shards.values())


@settings(deadline=None)
@given(costs=COSTS, clients=CLIENTS)
def test_each_task_is_assigned_once(costs: dict[str, float], clients: list[str]) -> None:
    shards = assign(costs, clients)
    assert set(shards) == set(clients)
    assert sorted(itertools.chain(*shards.values())) == sorted(costs)


@settings(deadline=None)
@given(costs=COSTS, clients=CLIENTS)
def test_nobody_is_idle_while_another_has_two(costs: dict[str, float], clients: list[str]) -> None:
    counts = [len(tasks) for tasks in assign(costs, clients).values()]
    assert min(counts) > 0 or max(counts) < 2


@settings(deadline=None)
@given(costs=COSTS, clients=CLIENTS, data=st.data())
def test_order_does_not_matter(
    costs: dict[str, float], clients: list[str], data: st.DataObject
) -> None:
    shuffled = dict(data.draw(st.permutations(list(costs.items()))))
    assert assign(shuffled, data.draw(st.permutations(clients))) == assign(costs, clients)


@settings(deadline=None, max_examples=50)
@given(
    costs=st.lists(st.integers(1, 50), min_size=1, max_size=7),
    client_count=st.integers(1, 3),
)
def test_is_within_four_thirds_of_the_best(costs: list[int], client_count: int) -> None:
    named = {f"t{index}": float(cost) for index, cost in enumerate(costs)}
    best = min(
        max(
            sum(cost for cost, owner in zip(costs, owners, strict=True) if owner == client)
            for client in range(client_count)
        )
        for owners in itertools.product(range(client_count), repeat=len(costs))
    )
    shards = assign(named, [f"c{index}" for index in range(client_count)])
    assert makespan(shards, named) <= (4 / 3 - 1 / (3 * client_count)) * best + 1e-9


def test_longest_goes_first() -> None:
    shards = assign({"a": 1.0, "b": 5.0, "c": 4.0, "d": 2.0}, ["x", "y"])
    assert shards == {"x": ("b", "a"), "y": ("c", "d")}


def test_no_client_no_task() -> None:
    assert assign({}, []) == {}
    with pytest.raises(AssertionError):
        assign({"a": 1.0}, [])
