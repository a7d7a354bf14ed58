"""Takes a process out of MPS before it is killed.

A busy client that is killed leaves the server in a state that NVIDIA does not define: its work on
the GPU is ended first.
"""

from __future__ import annotations

from tune_farm.client.share.mps.control import Control
from tune_farm.client.share.mps.handshake import pids_of


def leave(control: Control, pid: int) -> None:
    """End a process's work on the GPU; nothing where MPS does not know it.

    Raises:
        MpsError: the daemon does not answer as it should.
    """
    names = pids_of(pid)
    for server in control.servers():
        for client in names & set(control.clients(server)):
            control.terminate(server, client)
