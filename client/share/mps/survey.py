"""What MPS looks like on this machine, for people; asks, and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tune_farm.client.share.mps.control import PIPE_DIRECTORY, Control, find_binary
from tune_farm.client.share.mps.errors import MpsError, MpsProblem

#: Where a daemon listens that nobody told otherwise (NVIDIA's MPS documentation).
_USUAL = Path("/tmp/nvidia-mps")  # noqa: S108


def mps_state(environment: Mapping[str, str]) -> str:
    """One line on the daemon that a CUDA process started here would meet."""
    folder = Path(environment.get(PIPE_DIRECTORY) or _USUAL)
    try:
        control = Control(pipe_directory=folder, binary=find_binary(environment.get("PATH")))
        servers = control.servers()
        clients = sum(len(control.clients(server)) for server in servers)
        percent = control.default_percentage()
        states = {control.status(server) for server in servers}
    except MpsError as error:
        if error.problem is MpsProblem.NO_BINARY:
            return "no control command"
        if error.problem is MpsProblem.NO_DAEMON:
            return "no daemon"
        return error.cause
    state = f", {' and '.join(sorted(states)).lower()}" if states else ""
    return f"daemon in {folder}: {clients} clients, at most {percent:g}%{state}"
