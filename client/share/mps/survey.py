"""What MPS looks like on this machine, for people; asks, and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tune_farm.client.share.mps.control import PIPE_DIRECTORY, USUAL_PIPES, Control, find_binary
from tune_farm.client.share.mps.errors import MpsError, MpsProblem

#: Why a share seems to have no effect.
UTILIZATION = (
    "utilization, as nvidia-smi shows it, is the part of the time in which any kernel ran: 99% at "
    "a share of 1%, too; a share shows in the SMs that a client sees ('tune-farm doctor --full')"
)
_BRIEFLY = {MpsProblem.NO_BINARY: "no control command", MpsProblem.NO_DAEMON: "no daemon"}


def look(environment: Mapping[str, str]) -> str:
    """One line on the daemon that a CUDA process started here would meet.

    Raises:
        MpsError: there is none, or it does not answer as it should.
    """
    folder = Path(environment.get(PIPE_DIRECTORY) or USUAL_PIPES)
    control = Control(pipe_directory=folder, binary=find_binary(environment.get("PATH")))
    servers = control.servers()
    clients = sum(len(control.clients(server)) for server in servers)
    percent = control.default_percentage()
    states = sorted({control.status(server) for server in servers})
    state = f", {' and '.join(states).lower()}" if states else ""
    return f"daemon in {folder}: {clients} clients, at most {percent:g}%{state}"


def mps_state(environment: Mapping[str, str]) -> str:
    """The same, or in few words why there is nothing to see."""
    try:
        return look(environment)
    except MpsError as error:
        return _BRIEFLY.get(error.problem, error.cause)
