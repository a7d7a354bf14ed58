"""Holds an MPS daemon: starts it, and ends it when its stdin closes, however that came about.

A process of its own, so that an interrupted or killed check leaves no daemon behind. It needs
neither psutil nor NVML, which a machine with a GPU may lack.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tune_farm.client.share.mps.control import BINARY, PIPE_DIRECTORY, Control
from tune_farm.client.share.mps.errors import MpsError

#: Inherited, they would bind the daemon and with it all clients.
OF_CLIENTS = (
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_SM_PARTITION",
    "CUDA_MPS_CLIENT_PRIORITY",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
)
_START_SECONDS = 10.0
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Which daemon to hold."""

    folder: Path  # of pipes and logs: short, ours alone, removed at the end
    binary: str
    uuid: str  # of the GPU
    static: bool  # with static partitions

    @property
    def pipes(self) -> Path:
        """Where it listens."""
        return self.folder / "pipe"


def main() -> int:
    """Start, say how that went (JSON, one line), wait for the end of stdin, stop."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    given = json.loads(sys.argv[1])
    order = Order(**{**given, "folder": Path(given["folder"])})
    control = Control(pipe_directory=order.pipes, binary=order.binary)
    try:
        refusal = start(order, control)
        print(json.dumps({"refusal": refusal}), flush=True)
        if not refusal:
            sys.stdin.read()
    finally:
        stop(order, control)
    return 0


def start(order: Order, control: Control) -> str:
    """Start the daemon; why not, or nothing once it listens."""
    logs = order.folder / "log"
    for each in (order.pipes, logs):
        each.mkdir(mode=0o700)
    environment = {name: value for name, value in os.environ.items() if name not in OF_CLIENTS}
    environment |= {
        PIPE_DIRECTORY: str(order.pipes),
        "CUDA_MPS_LOG_DIRECTORY": str(logs),
        "CUDA_VISIBLE_DEVICES": order.uuid,
    }
    said = order.folder / "said"
    with said.open("wb") as output:  # a file: a pipe would stay open as long as the daemon
        command = [order.binary, "-d", *(["-S"] if order.static else [])]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            process.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if (order.pipes / "control").exists():
            try:
                control.servers()
            except MpsError as error:
                return error.cause
            return ""
        if process.returncode:
            break
        time.sleep(_POLL_SECONDS)
    reason = " ".join(said.read_text(errors="replace").split()) or "it does not listen"
    return f"the MPS daemon did not start: {reason[:300]}"


def stop(order: Order, control: Control) -> None:
    """End the work of its clients, its server, the daemon and their folder."""
    if processes_of(order.pipes):
        with contextlib.suppress(MpsError):
            for server in control.servers():
                for client in control.clients(server):
                    with contextlib.suppress(MpsError):
                        control.terminate(server, client)
        with contextlib.suppress(MpsError):
            control.quit()
        deadline = time.monotonic() + _STOP_SECONDS
        while (left := processes_of(order.pipes)) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    shutil.rmtree(order.folder, ignore_errors=True)


def processes_of(pipes: Path) -> list[int]:
    """The daemon of a pipe directory and its servers, by what /proc says of them."""
    marker = f"{PIPE_DIRECTORY}={pipes}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            name = (folder / "cmdline").read_bytes().split(b"\0")[0].rpartition(b"/")[2]
            is_mps = name.startswith(BINARY.removesuffix("control").encode())
            if is_mps and marker in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue  # it ended, or is another user's
    return found


if __name__ == "__main__":
    sys.exit(main())
