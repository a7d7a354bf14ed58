"""The measuring child on an NVIDIA GPU: the same, with kernels timed by the device's events.

Repeats follow each other without a flush between them, as TVM's own do: what fits the L2 cache is
found there. A process of its own asks for nothing but device 0: which one that is, and how much of
it, was settled when the process was born.
"""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

from tune_farm.tuner.cuda_runtime import load_cuda_runtime
from tune_farm.tuner.measure.child import Bench, serve_on
from tune_farm.tuner.measure.cuda_faults import fault_of, is_lasting
from tune_farm.tuner.types import Fault


def serve(connection: Connection[Any, Any]) -> None:
    """Answer measure jobs until the channel closes."""
    serve_on(connection, Bench(load_cuda_runtime(), run_fault=_run_fault))


def _run_fault(message: str) -> tuple[Fault, bool]:
    return fault_of(message), is_lasting(message)
