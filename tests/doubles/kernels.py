"""A measuring child whose kernels do to the stub of CUDA what kernels do to a GPU.

An artifact is a JSON file: `seconds` that a call takes, `faults` where it reaches for an address
that is not its own. A fault goes to the MPS daemon's double, which tells all clients, as NVIDIA's
does; who hears of one while a kernel runs fails with it.
"""

from __future__ import annotations

import json
import os
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tune_farm.client.devices.cuda_driver import CudaDriver, CudaError
from tune_farm.client.share.mps.control import PIPE_DIRECTORY, Control
from tune_farm.tuner.measure.messages import ChildReady, MeasureDone, MeasureJob
from tune_farm.tuner.types import Failed, Fault, Measured, Outcome

_STEP_SECONDS = 0.01


def serve(connection: Connection[Any, Any]) -> None:
    connection.send(ChildReady(cores=tuple(sorted(os.sched_getaffinity(0)))))
    while True:
        job: MeasureJob = connection.recv()
        started = time.monotonic()
        outcome = run(json.loads(Path(job.library).read_text()))
        connection.send(
            MeasureDone(
                outcome=outcome,
                cores_used=(),
                check_seconds=0.0,
                measure_seconds=time.monotonic() - started,
                is_broken=isinstance(outcome, Failed),
            )
        )


def run(kernel: dict[str, Any]) -> Outcome:
    if kernel["faults"]:
        Control(pipe_directory=Path(os.environ[PIPE_DIRECTORY])).ask(f"fault {os.getpid()}")
        return Failed(fault=Fault.ILLEGAL_ACCESS, detail="CUDA_ERROR_ILLEGAL_ADDRESS")
    end = time.monotonic() + float(kernel["seconds"])
    while True:
        try:
            CudaDriver()  # initialized again, it tells what happened meanwhile
        except CudaError as error:
            return Failed(fault=Fault.RUN_ERROR, detail=str(error))
        if time.monotonic() >= end:
            return Measured(repeats_seconds=(float(kernel["seconds"]),))
        time.sleep(_STEP_SECONDS)
