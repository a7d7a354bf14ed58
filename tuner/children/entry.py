"""The first code that a child runs: affinity, signals and lifeline, before any heavy import."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection

from tune_farm.tuner.children import last_act


def main(config_text: str) -> None:
    """Set up this process as `config_text` (JSON of `Child`) says, then serve its role."""
    config = json.loads(config_text)
    os.sched_setaffinity(0, config["cores"])
    # A Ray worker blocks SIGINT for all it starts. Ctrl-C is the server's business.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    lifeline = config["lifeline"]
    threading.Thread(target=_die_with_parent, args=(lifeline,), daemon=True).start()
    # Every way out skips destructors of loaded libraries: a candidate's may crash.
    try:
        importlib.import_module(config["role"]).serve(Connection(config["channel"]))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        _end()
    except BaseException:  # noqa: BLE001 - the top of the process: it reports and dies
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _die_with_parent(lifeline: int) -> None:
    # Nothing is ever written to it: the read returns when the last holder of the other end, our
    # parent, is gone, however it died. (PDEATHSIG would fire when the spawning *thread* ends.)
    os.read(lifeline, 1)
    _end()


def _end() -> None:
    """The parent is gone: leave in order, if there is one to keep, with whatever we started."""
    last_act.perform()
    os.killpg(0, signal.SIGKILL)  # we lead our own session
