"""A child under a share: becomes an MPS client, says what it was given, then serves its role.

Nothing is measured before its owner has compared that with what it should have been.
"""

from __future__ import annotations

import importlib
import os
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tune_farm.client.share.mps.control import PIPE_DIRECTORY, Control
from tune_farm.client.share.mps.handshake import attach
from tune_farm.client.share.mps.leave import leave
from tune_farm.tuner.children import last_act

#: Of the environment: the module whose `serve` comes after the handshake.
ROLE = "TUNE_FARM_ROLE"
PATH = "tune_farm.client.share.mps.child"


def serve(connection: Connection[Any, Any]) -> None:
    """Shake hands, then do what this child is for."""
    control = Control(pipe_directory=Path(os.environ[PIPE_DIRECTORY]))
    # Its owner may die while a kernel runs here: then nobody else is left to end that work.
    last_act.add(lambda: leave(control, os.getpid()))
    connection.send(attach())
    connection.recv()  # the owner is content; else it ends us
    importlib.import_module(os.environ[ROLE]).serve(connection)
