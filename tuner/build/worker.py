"""The build worker: imports TVM once, then compiles whatever it is given."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from typing import Any

from tune_farm.tuner.build.messages import BuildDone, BuildJob, WorkerReady
from tune_farm.tuner.space.intrinsics import load_intrinsics
from tune_farm.tuner.space.traces import replay
from tune_farm.tuner.types import UNTUNED_TRACE


def serve(connection: Connection[Any, Any]) -> None:
    """Answer build jobs until the channel closes."""
    import tvm
    from tvm import tirx  # noqa: F401

    modules: dict[str, Any] = {}
    targets: dict[str, Any] = {}
    connection.send(WorkerReady())
    while True:
        job: BuildJob = connection.recv()
        started = time.monotonic()
        error = None
        try:
            if job.module_json is not None:
                modules[job.task_id] = tvm.ir.load_json(job.module_json)
            if job.target_json not in targets:
                targets[job.target_json] = tvm.target.Target(job.target_json)
                load_intrinsics(targets[job.target_json])
            compile_library(
                modules[job.task_id], job.trace_json, targets[job.target_json], job.library
            )
        except Exception as problem:  # noqa: BLE001 - whatever a schedule makes TVM or cc raise
            error = _first_cause(problem)
        connection.send(BuildDone(seconds=time.monotonic() - started, error=error))


def compile_library(module: Any, trace_json: str, target: Any, library: str) -> None:
    """Replay a trace on `module` and write the compiled result as a shared library."""
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    if trace_json != UNTUNED_TRACE:
        module = replay(module, trace_json).mod
        module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
    tvm.tirx.build(module, target=target).export_library(library)


def _first_cause(problem: Exception) -> str:
    """The line that names the cause first, the rest of the message after it."""
    lines = [line for line in str(problem).splitlines() if line.strip()]
    named = [line.strip() for line in lines if "rror" in line]
    first = named[-1] if named else (lines[0].strip() if lines else "")
    return f"{type(problem).__name__}: {first}\n" + "\n".join(lines[-30:])
