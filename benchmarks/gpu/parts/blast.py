"""A client writes where nothing is: who else notices, and how long until new clients can start?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeAlias

from benchmarks.gpu.lab import Client, Daemon, Earlier, Findings, Lab, SkippedError, ask
from benchmarks.gpu.launches import sentinels
from benchmarks.gpu.messages import Fault, Pump, Refused, Synchronize
from benchmarks.gpu.parts.waves import partition
from tune_farm.client.share.mps.errors import MpsError

#: One that faults, and its neighbours.
_CLIENTS = 3
_PERCENT = 25.0
#: So long neighbours are at work; the fault comes in the middle of it.
_WORK_SECONDS = 1.5
_POLL_SECONDS = 0.05
_MOST_RECOVERY_SECONDS = 12.0

#: Starts a client by a name.
Start: TypeAlias = Callable[[str], AbstractContextManager[Client]]


def run(lab: Lab, earlier: Earlier) -> Findings:
    """Under a percentage, under static partitions, and without MPS."""
    del earlier
    rows, notes = list[dict[str, Any]](), list[str]()
    for kind in KINDS:
        try:
            rows.append(kind(lab))
        except SkippedError as reason:
            notes.append(f"{kind.__name__.replace('_', ' ')}: {reason}")
    if not rows:
        raise SkippedError("; ".join(notes))
    return Findings(
        says="; ".join(_told(row) for row in rows),
        results={
            f"{row['kind']}_{name}": row[name]
            for row in rows
            for name in ("neighbors_hit", "recovery_seconds")
            if row[name] is not None
        },
        rows=rows,
        notes=notes,
    )


def by_percentage(lab: Lab) -> dict[str, Any]:
    """Clients of one server."""
    with lab.daemon() as daemon:
        return _fault(lab, "mps", daemon, lambda name: daemon.client(name, percent=_PERCENT))


def by_partition(lab: Lab) -> dict[str, Any]:
    """Clients of one server that have SMs of their own."""
    with lab.daemon(static=True) as daemon, ExitStack() as stack:
        names = iter(
            [stack.enter_context(partition(lab, daemon, 1))[0] for _ in range(_CLIENTS + 1)]
        )
        later: list[str] = []

        def start(name: str) -> AbstractContextManager[Client]:
            # Those that start after the fault have the last partition, one after the other.
            later[:] = [next(names, later[0] if later else "")]
            return daemon.client(name, partition=later[0])

        return _fault(lab, "static", daemon, start)


def without_mps(lab: Lab) -> dict[str, Any]:
    """Processes that take turns."""
    return _fault(lab, "time_sliced", None, lab.alone)


def _fault(lab: Lab, kind: str, daemon: Daemon | None, start: Start) -> dict[str, Any]:
    with ExitStack() as stack:
        clients = [stack.enter_context(start(f"{kind}-{number}")) for number in range(_CLIENTS)]
        for client in clients:
            _require_sound(client)
        culprit, *neighbors = clients
        launch = sentinels(lab.code, lab.device.sm_count)["arithmetic"]
        for neighbor in neighbors:
            neighbor.start(Pump(launch=launch, begin=lab.now(), seconds=_WORK_SECONDS))
        lab.pause(_WORK_SECONDS / 2)
        answer = ask(culprit, Fault(code=lab.code))
        faulted = lab.now()
        if not isinstance(answer, Refused):
            raise SkippedError("the deliberate fault was none: a write to nowhere went through")
        if not answer.number:
            raise SkippedError(answer.text)
        states = [_state(daemon)]
        hit = [neighbor.answer() for neighbor in neighbors]
        told = lab.now()
        refused = _error_of_new(start, f"{kind}-meanwhile") if daemon is not None else None
        states.append(_state(daemon))
    left = lab.now()
    attempts, last = _until_sound(lab, start, kind, left)
    states.append(_state(daemon))
    return {
        "kind": kind,
        "culprit_error": answer.number,
        "neighbors": len(neighbors),
        "neighbors_hit": sum(isinstance(each, Refused) for each in hit),
        "neighbor_errors": _numbers(hit),
        "seconds_until_told": told - faulted,
        "new_client_meanwhile": refused,
        "server_states": " > ".join(states),
        "seconds_until_all_left": left - faulted,
        "recovery_seconds": None if last else lab.now() - left,
        "attempts": attempts,
        "last_error": last,
    }


def _until_sound(lab: Lab, start: Start, kind: str, since: float) -> tuple[int, str]:
    """Try until a new client works: tries, and the last error where none does in time."""
    attempts = 0
    while True:
        attempts += 1
        error = _error_of_new(start, f"{kind}-after-{attempts}")
        if not error or lab.now() - since > _MOST_RECOVERY_SECONDS:
            return attempts, error
        lab.pause(_POLL_SECONDS)


def _error_of_new(start: Start, name: str) -> str:
    """What a client that starts now is told; empty: it works."""
    with start(name) as client:
        if client.attached.error:
            return client.attached.error
        answer = ask(client, Synchronize())
        return answer.text if isinstance(answer, Refused) else ""


def _require_sound(client: Client) -> None:
    if client.attached.error:
        raise SkippedError(f"a client can't start: {client.attached.error}")
    answer = ask(client, Synchronize())
    if isinstance(answer, Refused):
        raise SkippedError(answer.text)


def _state(daemon: Daemon | None) -> str:
    """Of the daemon's servers."""
    if daemon is None:
        return "no server"
    with contextlib.suppress(MpsError):
        states = [daemon.control.status(each) or "?" for each in daemon.control.servers()]
        return "+".join(states) or "no server"
    return "no answer"


def _numbers(answers: Sequence[object]) -> str:
    return " ".join(str(each.number) for each in answers if isinstance(each, Refused))


def _told(row: dict[str, Any]) -> str:
    recovery = row["recovery_seconds"]
    after = "no new client afterwards" if recovery is None else f"sound after {recovery:.1f} s"
    return f"{row['kind']}: {row['neighbors_hit']} of {row['neighbors']} neighbours hit, {after}"


KINDS = (by_percentage, by_partition, without_mps)
