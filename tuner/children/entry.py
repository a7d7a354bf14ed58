"""The first code that a child runs: affinity, signals and lifeline, before any heavy import."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import signal
import threading
from multiprocessing.connection import Connection


def main(config_text: str) -> None:
    """Set up this process as `config_text` (JSON of `Child`) says, then serve its role."""
    config = json.loads(config_text)
    os.sched_setaffinity(0, config["cores"])
    # A Ray worker blocks SIGINT for all it starts. Ctrl-C is the server's business, not ours.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    threading.Thread(target=_die_with_parent, args=(config["lifeline"],), daemon=True).start()
    serve = importlib.import_module(config["role"]).serve
    try:
        serve(Connection(config["channel"]))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent closed the channel: a normal end
    finally:
        # Skip destructors of loaded libraries: a candidate's may crash, and nobody reads the result.
        os._exit(0)


def _die_with_parent(lifeline: int) -> None:
    # Nothing is ever written to it: the read returns when the last holder of the other end, our
    # parent, is gone, however it died. (PDEATHSIG would fire when the spawning *thread* ends.)
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)  # we lead our own session: a compiler we started goes with us
