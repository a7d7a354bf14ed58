"""The build worker: imports TVM once, then compiles whatever it is given."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tune_farm.tuner.build.claims import claim
from tune_farm.tuner.build.cuda_build import PrunedError, build_cuda, schedule_by_default
from tune_farm.tuner.build.messages import BuildDone, BuildJob, WorkerReady
from tune_farm.tuner.space.intrinsics import load_intrinsics
from tune_farm.tuner.space.traces import replay
from tune_farm.tuner.types import UNTUNED_TRACE, KernelUsage


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
        error, pruned = None, False
        kernels: tuple[KernelUsage, ...] = ()
        try:
            if job.module_json is not None:
                modules[job.task_id] = tvm.ir.load_json(job.module_json)
            if job.target_json not in targets:
                targets[job.target_json] = tvm.target.Target(job.target_json)
            target = targets[job.target_json]
            load_intrinsics(target)
            kernels = compile_library(modules[job.task_id], target, job)
        except PrunedError as reason:
            error, pruned = str(reason), True
        except Exception as problem:  # noqa: BLE001 - whatever a schedule makes TVM or cc raise
            error = _first_cause(problem)
        seconds = time.monotonic() - started
        connection.send(BuildDone(seconds=seconds, error=error, pruned=pruned, kernels=kernels))


def compile_library(module: Any, target: Any, job: BuildJob) -> tuple[KernelUsage, ...]:
    """Replay a job's trace on its task's module and write the result as a shared library.

    Returns:
        What its kernels take; nothing for a CPU.

    Raises:
        PrunedError: it was compiled for a GPU, and is not worth a measurement.
    """
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    is_tuned = job.trace_json != UNTUNED_TRACE
    is_cuda = str(target.kind.name) == "cuda"
    if is_tuned:
        module = replay(module, job.trace_json).mod
        module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
    if not is_cuda:
        tvm.tirx.build(module, target=target).export_library(job.library)
        return ()
    if is_tuned:
        return build_cuda(module, target, job.library, is_new=lambda code: _other_owner(job, code))
    return build_cuda(schedule_by_default(module, target), target, job.library, is_new=None)


def _other_owner(job: BuildJob, code: str) -> str | None:
    owner = claim(Path(job.claims), code, job.candidate_id)
    return None if owner == job.candidate_id else owner


def _first_cause(problem: Exception) -> str:
    """The line that names the cause first, the rest of the message after it."""
    lines = [line for line in str(problem).splitlines() if line.strip()]
    named = [line.strip() for line in lines if "rror" in line]
    first = named[-1] if named else (lines[0].strip() if lines else "")
    return f"{type(problem).__name__}: {first}\n" + "\n".join(lines[-30:])
