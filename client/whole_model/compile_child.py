"""The compiling child: TVM's compiler, no device."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tune_farm.client.whole_model.messages import CompileModel, ModelCompiled
from tune_farm.tuner.build.cuda_model import build_cuda_model
from tune_farm.tuner.space.intrinsics import (
    load_intrinsics,
    named_intrinsics,
    register_intrinsics,
)


def serve(connection: Connection[Any, Any]) -> None:
    """Compile what is asked for until the channel closes."""
    while True:
        job: CompileModel = connection.recv()
        error = None
        try:
            compile_model(job)
        except Exception as problem:  # noqa: BLE001 - whatever a model makes TVM or cc raise
            error = f"{type(problem).__name__}: {problem}"
        connection.send(ModelCompiled(error=error))


def compile_model(job: CompileModel) -> None:
    """Compile by TVM's default pipeline, operators by the database where it has them."""
    import tvm
    from tvm import relax
    from tvm.s_tir import meta_schedule as ms

    module = tvm.ir.load_json(Path(job.module).read_text())
    target = tvm.target.Target(job.target_json)
    load_intrinsics(target)
    if job.database is not None:
        workloads, records = job.database
        register_intrinsics(named_intrinsics(Path(records).read_text()))
        database = ms.database.JSONDatabase(workloads, records)
        with target, database, tvm.transform.PassContext(opt_level=3):
            module = relax.transform.MetaScheduleApplyDatabase()(module)
    if target.kind.name == "cuda":
        build_cuda_model(module, target, job.library)
    else:
        tvm.compile(module, target).export_library(job.library)
