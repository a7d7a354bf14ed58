"""Adapts shards to clients that come, go or lag, moving as few tasks as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tune_farm.sharding.plan import longest_first

#: A finish within this share of the ideal is good enough: a moved task costs its new client a
#: start (a baseline, a model trained on its operator) that a smaller gain would not pay for.
_SLACK = 0.1
#: Finishing times closer than this, relatively, are equal; so that rounding cannot cause moves.
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """One task that changes hands."""

    finish: float  # the later of both clients' finishing times afterwards, seconds
    task: str
    donor: str
    receiver: str

    @property
    def order(self) -> tuple[float, str, str]:
        """Moves are compared by their effect, then by name."""
        return self.finish, self.receiver, self.task


class _Shards:
    """Shards under change."""

    def __init__(
        self, costs: Mapping[str, float], clients: Sequence[str], speeds: Mapping[str, float]
    ) -> None:
        self._costs = costs
        #: Each client's speed; 1 is as fast as the costs assume.
        self._speeds = {client: speeds.get(client, 1.0) for client in sorted(clients)}
        assert all(speed > 0 for speed in self._speeds.values()), speeds
        #: Each client's tasks.
        self.tasks: dict[str, set[str]] = {client: set() for client in self._speeds}
        #: The sum of each client's costs, in seconds at speed 1.
        self._work = dict.fromkeys(self._speeds, 0.0)

    def finish(self, client: str, extra: float = 0.0) -> float:
        """When a client would be done with its tasks and `extra` seconds of work."""
        return max(0.0, self._work[client] + extra) / self._speeds[client]

    def add(self, task: str, client: str) -> None:
        """Give a client one more task."""
        self.tasks[client].add(task)
        self._work[client] += self._costs[task]

    def apply(self, move: _Move) -> None:
        """Carry out a move."""
        self.tasks[move.donor].remove(move.task)
        # Summed afresh, so that rounding does not depend on the history of moves.
        self._work[move.donor] = sum(self._costs[task] for task in sorted(self.tasks[move.donor]))
        self.add(move.task, move.receiver)

    def ideal(self) -> float:
        """A time before which no distribution can be done."""
        work, speeds = sum(self._costs.values()), self._speeds.values()
        return max(work / sum(speeds), max(self._costs.values(), default=0.0) / max(speeds))

    def best_client(self, task: str) -> str:
        """Who would be done first if it got the task."""
        return min(
            self.tasks,
            key=lambda client: (
                self.finish(client, self._costs[task]),
                len(self.tasks[client]),
                client,
            ),
        )

    def best_move(self, donor: str, receivers: Sequence[str]) -> _Move | None:
        """The move away from a client after which both are done earliest."""
        moves = (
            _Move(
                finish=max(
                    self.finish(donor, -self._costs[task]),
                    self.finish(receiver, self._costs[task]),
                ),
                task=task,
                donor=donor,
                receiver=receiver,
            )
            for receiver in receivers
            for task in self.tasks[donor]
        )
        return min(moves, key=lambda move: move.order, default=None)


def _seat(shards: _Shards, before: Mapping[str, Sequence[str]], order: Sequence[str]) -> None:
    """Leave each task with its client if that is there; hand out the others, longest first."""
    homeless = dict.fromkeys(order)
    for client in shards.tasks:
        for task in before.get(client, ()):
            if task in homeless:
                del homeless[task]
                shards.add(task, client)
    for task in homeless:
        shards.add(task, shards.best_client(task))


def _occupy_idle(shards: _Shards) -> None:
    """Give clients without work one task of those who have several, if that delays nobody."""
    for idle in [client for client, tasks in shards.tasks.items() if not tasks]:
        donors = [client for client, tasks in shards.tasks.items() if len(tasks) > 1]
        donors.sort(key=lambda client: (-shards.finish(client), client))
        for donor in donors:
            move = shards.best_move(donor, [idle])
            if move is not None and move.finish <= shards.finish(donor) * (1 + _EPSILON):
                shards.apply(move)
                break


def _level(shards: _Shards) -> None:
    """Relieve the client that would be done last until that is good enough or impossible."""
    good_enough = shards.ideal() * (1 + _SLACK)
    while True:
        last = max(shards.tasks, key=lambda client: (shards.finish(client), client))
        finish = shards.finish(last)
        if finish <= good_enough:
            return
        move = shards.best_move(last, [client for client in shards.tasks if client != last])
        if move is None or move.finish >= finish * (1 - _EPSILON):
            return
        shards.apply(move)


def rebalance(
    shards: Mapping[str, Sequence[str]],
    costs: Mapping[str, float],
    clients: Sequence[str],
    *,
    speeds: Mapping[str, float] | None = None,
) -> dict[str, tuple[str, ...]]:
    """Distribute the tasks that are left among the clients that are there.

    A task stays where it is unless its client is gone, a client is idle while another has several
    tasks, or the last client would be done more than a tenth later than ideal. The result does
    not depend on the order of anything.

    Args:
        shards: the tasks of each client so far, also of clients that are gone.
        costs: expected seconds of each task that is left; others are dropped, unknown ones added.
        clients: distinct names of the clients that are there.
        speeds: how fast clients are, 1 (also if missing) being as fast as the costs assume.

    Returns:
        For each client its tasks, the longest first.
    """
    assert len(set(clients)) == len(clients), clients
    if not clients:
        assert not costs, "tasks but no client"
        return {}
    changed = _Shards(costs, clients, speeds or {})
    order = longest_first(costs)
    _seat(changed, shards, order)
    _occupy_idle(changed)
    _level(changed)
    return {
        client: tuple(task for task in order if task in tasks)
        for client, tasks in changed.tasks.items()
    }
