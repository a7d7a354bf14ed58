"""Shares a model's tasks among clients so that all are done at about the same time."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence


def assign(costs: Mapping[str, float], clients: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Give each task to one client: the longest first, each to the client with the least so far.

    No client then has more than 4/3 of the best possible load. The result depends on neither the
    order of tasks nor that of clients.

    Args:
        costs: expected seconds of each task, 0 or more.
        clients: distinct names.

    Returns:
        For each client its tasks, the longest first.
    """
    assert len(set(clients)) == len(clients), clients
    assert all(cost >= 0 for cost in costs.values()), costs
    shards: dict[str, list[str]] = {client: [] for client in sorted(clients)}
    if not shards:
        assert not costs, "tasks but no client"
        return {}
    # The number of tasks comes before the name: tasks that cost nothing spread, too.
    loads = [(0.0, 0, client) for client in shards]
    for task in longest_first(costs):
        load, count, client = heapq.heappop(loads)
        shards[client].append(task)
        heapq.heappush(loads, (load + costs[task], count + 1, client))
    return {client: tuple(tasks) for client, tasks in shards.items()}


def longest_first(costs: Mapping[str, float]) -> list[str]:
    """Tasks by falling cost, ties by id."""
    return sorted(costs, key=lambda task: (-costs[task], task))
