"""A client that runs libraries in TVM's runtime, as the product's measuring child does."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks.gpu.messages import Ran, Refused, RunLibrary
from tune_farm.client.share.mps.handshake import attach
from tune_farm.tuner.measure.inputs import make_inputs, poisoned

_REPEATS, _REPEAT_MILLISECONDS = 5, 20


def serve(connection: Connection[Any, Any]) -> None:
    """Attach and say what was given; then run libraries until told to leave (None)."""
    connection.send(attach())
    while (work := connection.recv()) is not None:
        try:
            answer: Ran | Refused = run(work)
        except Exception as problem:  # noqa: BLE001 - whatever TVM's runtime raises is the finding
            words = [line for line in str(problem).splitlines() if line.strip()]
            text = f"{type(problem).__name__}: {words[-1] if words else ''}"
            answer = Refused(number=0, text=text)
        connection.send(answer)


def run(work: RunLibrary) -> Ran:
    """Load a library, run it once on a poisoned result, then time it."""
    import tvm

    device = tvm.cuda(0)
    if not device.exist:
        raise RuntimeError("TVM's runtime for CUDA did not load: libcudart.so.13 is missing")
    module = tvm.runtime.load_module(work.library)
    inputs = iter(make_inputs(work.arguments, task_id=work.task_id, positive=False))
    values = [poisoned(each) if each.is_output else next(inputs) for each in work.arguments]
    arguments = [tvm.runtime.tensor(each, device) for each in values]
    module["main"](*arguments)
    device.sync()
    output = next(place for place, each in enumerate(work.arguments) if each.is_output)
    result = np.asarray(arguments[output].numpy()).reshape(-1)
    evaluator = module.time_evaluator(
        "main", device, number=1, repeat=_REPEATS, min_repeat_ms=_REPEAT_MILLISECONDS
    )
    return Ran(
        values=tuple(float(each) for each in result[list(work.places)]),
        repeats_seconds=tuple(float(each) for each in evaluator(*arguments).results),
        version=str(tvm.__version__),
    )
