from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tune_farm.sharding.plan import assign
from tune_farm.sharding.rebalance import rebalance

COSTS = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=4), st.floats(0, 1000), max_size=20
)
CLIENTS = st.lists(st.sampled_from("stuvwxyz"), unique=True, min_size=1, max_size=6)
Shards = dict[str, tuple[str, ...]]


@st.composite
def scattered(draw: st.DrawFn) -> tuple[Shards, dict[str, float], list[str]]:
    """Shards of some clients, costs of some of their tasks and of others, clients of now."""
    costs = draw(COSTS)
    known = [*draw(st.lists(st.sampled_from(sorted(costs)))), "gone"] if costs else ["gone"]
    before = draw(CLIENTS)
    shards: dict[str, list[str]] = {client: [] for client in before}
    for task in known:
        shards[draw(st.sampled_from(before))].append(task)
    return {client: tuple(tasks) for client, tasks in shards.items()}, costs, draw(CLIENTS)


def owners(shards: Shards) -> dict[str, str]:
    return {task: client for client, tasks in shards.items() for task in tasks}


@settings(deadline=None)
@given(case=scattered(), speed=st.floats(0.1, 4))
def test_each_task_is_assigned_once(
    case: tuple[Shards, dict[str, float], list[str]], speed: float
) -> None:
    shards, costs, clients = case
    result = rebalance(shards, costs, clients, speeds={clients[0]: speed})
    assert set(result) == set(clients)
    assert sorted(itertools.chain(*result.values())) == sorted(costs)


@settings(deadline=None)
@given(case=scattered())
def test_nobody_is_idle_while_another_has_two(
    case: tuple[Shards, dict[str, float], list[str]],
) -> None:
    counts = [len(tasks) for tasks in rebalance(*case).values()]
    assert min(counts) > 0 or max(counts) < 2


@settings(deadline=None)
@given(case=scattered())
def test_makespan_is_bounded(case: tuple[Shards, dict[str, float], list[str]]) -> None:
    _, costs, clients = case
    result = rebalance(*case)
    makespan = max(sum(costs[task] for task in tasks) for tasks in result.values())
    longest = max(costs.values(), default=0.0)
    mean = sum(costs.values()) / len(clients)
    graham = mean + (1 - 1 / len(clients)) * longest
    assert makespan <= max(1.1 * max(mean, longest), graham) * (1 + 1e-6)


@settings(deadline=None)
@given(case=scattered(), data=st.data())
def test_order_does_not_matter(
    case: tuple[Shards, dict[str, float], list[str]], data: st.DataObject
) -> None:
    shards, costs, clients = case
    shuffled = dict(data.draw(st.permutations(list(costs.items()))))
    again = rebalance(shards, shuffled, data.draw(st.permutations(clients)))
    assert again == rebalance(shards, costs, clients)


@settings(deadline=None)
@given(case=scattered())
def test_a_second_time_moves_nothing(case: tuple[Shards, dict[str, float], list[str]]) -> None:
    _, costs, clients = case
    once = rebalance(*case)
    assert rebalance(once, costs, clients) == once


@settings(deadline=None)
@given(costs=COSTS, clients=CLIENTS)
def test_from_nothing_it_is_the_plan(costs: dict[str, float], clients: list[str]) -> None:
    assert owners(rebalance({}, costs, clients)) == owners(assign(costs, clients))


@settings(deadline=None)
@given(cost=st.floats(0.1, 10), clients=CLIENTS, each=st.integers(2, 5))
def test_only_the_gone_clients_tasks_move(cost: float, clients: list[str], each: int) -> None:
    costs = {f"t{index}": cost for index in range(each * len(clients))}
    shards = assign(costs, clients)
    left = clients[1:]
    if left:
        after = owners(rebalance(shards, costs, left))
        for client in left:
            assert all(after[task] == client for task in shards[client])


def test_newcomer_gets_its_part_and_no_more_moves() -> None:
    costs = {f"t{index}": 1.0 for index in range(8)}
    shards = assign(costs, ["a", "b"])
    before, after = owners(shards), owners(rebalance(shards, costs, ["a", "b", "c", "d"]))
    moved = [task for task in costs if before[task] != after[task]]
    assert len(moved) == 4
    assert all(after[task] in {"c", "d"} for task in moved)


def test_laggard_is_relieved() -> None:
    costs = {f"t{index}": 1.0 for index in range(6)}
    shards = assign(costs, ["a", "b"])
    after = rebalance(shards, costs, ["a", "b"], speeds={"a": 0.5})
    assert (len(after["a"]), len(after["b"])) == (2, 4)


def test_small_imbalance_moves_nothing() -> None:
    costs = {"p": 10.0, "q": 9.0, "r": 0.5}
    shards = {"a": ("p", "r"), "b": ("q",)}
    assert rebalance(shards, costs, ["a", "b"]) == shards
