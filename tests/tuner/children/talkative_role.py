"""A child that does and tells whatever its test asks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


def serve(connection: Connection[Any, Any]) -> None:
    """Answer (action, argument) until the channel closes."""
    while True:
        action, argument = connection.recv()
        connection.send(_ACTIONS[action](argument))


def _die(number: int) -> None:
    os.kill(os.getpid(), number)
    threading.Event().wait()


def _exit_after_writing(data: bytes) -> None:
    os.write(2, data)
    os._exit(3)


def _print_everywhere(text: str) -> str:
    sys.stdout.write(f"{text}\n")
    os.write(1, b"\x80\x04garbage\xff\n")
    subprocess.run(["echo", text], check=True)
    return "still here"


def _start_sleeper(_: object) -> int:
    return subprocess.Popen(["sleep", "600"]).pid


_ACTIONS: dict[str, Callable[[Any], object]] = {
    "environment": lambda name: os.environ.get(name),
    "cores": lambda _: sorted(os.sched_getaffinity(0)),
    "blocked signals": lambda _: sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))),
    "ignores SIGINT": lambda _: signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    "group and session": lambda _: (os.getpgid(0), os.getsid(0)),
    "modules": lambda _: sorted(sys.modules),
    "descriptors": lambda _: sorted(each.name for each in Path("/proc/self/fd").iterdir()),
    "folder": lambda _: str(Path.cwd()),
    "die": _die,
    "exit": _exit_after_writing,
    "raise": lambda text: (_ for _ in ()).throw(RuntimeError(text)),
    "print": _print_everywhere,
    "never answer": lambda _: threading.Event().wait(),
    "start sleeper": _start_sleeper,
}
