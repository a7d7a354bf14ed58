"""The running child on an NVIDIA GPU."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

from tune_farm.client.whole_model.run_child import serve_on
from tune_farm.tuner.cuda_runtime import load_cuda_runtime


def serve(connection: Connection[Any, Any]) -> None:
    """Load, then run and compare as told."""
    serve_on(connection, load_cuda_runtime())
