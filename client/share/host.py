"""Divides the host's cores among the clients of GPUs: where devices are driven, where built."""

from __future__ import annotations

from collections.abc import Sequence


def host_cores(cores: Sequence[int], clients: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The measuring and the build cores of each client.

    A kernel is timed by its device, so builds may share a core with what launches it; but where
    there are enough cores they do not.

    Args:
        cores: of the host; each once.
        clients: how many.
    """
    assert cores
    if len(cores) < 2 * clients:
        places = [(cores[index % len(cores)],) for index in range(clients)]
        return [(place, part(tuple(cores), index, clients)) for index, place in enumerate(places)]
    spare = tuple(cores[clients:])
    return [((cores[index],), part(spare, index, clients)) for index in range(clients)]


def part(cores: tuple[int, ...], index: int, count: int) -> tuple[int, ...]:
    """One client's part of them; one that it shares where there are too few."""
    if len(cores) < count:
        return (cores[index % len(cores)],)
    return cores[index * len(cores) // count : (index + 1) * len(cores) // count]
