"""Whether TVM can use the share that a process is given, tried out in a process of its own."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tune_farm.client.share.lane import Lane
from tune_farm.client.share.mps import child as child_of_share
from tune_farm.client.share.seat import GpuSeat
from tune_farm.client.share.seat_guard import SeatGuard
from tune_farm.tuner.children.spawn import Birth, Child, ChildDiedError, ChildSilentError
from tune_farm.tuner.cuda_runtime import load_cuda_runtime
from tune_farm.tuner.errors import EnvironmentUnusableError
from tune_farm.tuner.measure.guard import welcome

_SECONDS = 60.0


def require_runtime(seat: GpuSeat, folder: Path) -> None:
    """Have a process under a share load TVM's CUDA runtime and find its device.

    Args:
        seat: the share.
        folder: for what the process writes.

    Raises:
        EnvironmentUnusableError: it does not, or the share is not in force.
    """
    guard = SeatGuard(Lane(folder / "lane", "probe"), seat)
    try:
        child = welcome(guard, lambda: _child(seat, folder))
        try:
            answer = child.receive(_SECONDS)
        finally:
            guard.part(child)
    except (ChildDiedError, ChildSilentError) as error:
        raise EnvironmentUnusableError(
            f"a process that loads TVM's CUDA runtime ended: {str(error).splitlines()[0]}",
            "look at 'nvidia-smi' and the kernel's log for Xid errors",
        ) from None
    if answer is not None:
        raise EnvironmentUnusableError(*answer)


def _child(seat: GpuSeat, folder: Path) -> Child:
    return Child(
        Birth(
            role=child_of_share.PATH,
            name="runtime",
            cores=tuple(sorted(os.sched_getaffinity(0))),
            threads=1,
            scratch=folder,
            environment={
                "TVM_USE_RUNTIME_LIB": "1",
                **dict(seat.environment),
                child_of_share.ROLE: __name__,
            },
        )
    )


def serve(connection: Connection[Any, Any]) -> None:
    """As a child: load it, and tell cause and remedy if that fails."""
    try:
        load_cuda_runtime()
    except EnvironmentUnusableError as error:
        connection.send((error.cause, error.remedy))
    else:
        connection.send(None)
    connection.recv()
