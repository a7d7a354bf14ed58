"""A child under a share: becomes an MPS client, says what it was given, then serves its role.

Nothing is measured before its owner has compared that with what it should have been.
"""

from __future__ import annotations

import importlib
import os
from multiprocessing.connection import Connection
from typing import Any

from tune_farm.client.share.mps.handshake import attach

#: Of the environment: the module whose `serve` comes after the handshake.
ROLE = "TUNE_FARM_ROLE"
PATH = "tune_farm.client.share.mps.child"


def serve(connection: Connection[Any, Any]) -> None:
    """Shake hands, then do what this child is for."""
    connection.send(attach())
    connection.recv()  # the owner is content; else it ends us
    importlib.import_module(os.environ[ROLE]).serve(connection)
