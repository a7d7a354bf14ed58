"""The running child: holds both builds of a model and runs them on the same inputs."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tune_farm.client.whole_model.agreement import Arrays, compare
from tune_farm.client.whole_model.messages import (
    CompareOutputs,
    LoadModels,
    OutputsCompared,
    RanOnce,
    RunOnce,
)


def serve(connection: Connection[Any, Any]) -> None:
    """Load, then run and compare as told."""
    import tvm  # noqa: F401 - the light runtime: TVM_USE_RUNTIME_LIB is set at birth

    models = Models(connection.recv())
    connection.send(RanOnce(seconds=0.0))
    while True:
        request = connection.recv()
        if isinstance(request, RunOnce):
            connection.send(RanOnce(seconds=models.run(tuned=request.tuned)))
        elif isinstance(request, CompareOutputs):
            connection.send(models.compare(request.rounding))


class Models:
    """The untuned and the tuned build, and the outputs of the last run of each."""

    def __init__(self, request: LoadModels) -> None:
        import tvm
        from tvm.runtime.vm import VirtualMachine

        self._machines = {
            False: VirtualMachine(tvm.runtime.load_module(request.baseline_library), tvm.cpu()),
            True: VirtualMachine(tvm.runtime.load_module(request.tuned_library), tvm.cpu()),
        }
        rng = np.random.default_rng(request.seed)
        inputs = [_draw(rng, *spec) for spec in request.inputs]
        #: The untuned build's: what is nudged to learn how far rounding alone moves its output.
        self._arrays = [*inputs, *_weights(request.baseline_weights)]
        untuned = _tensors(self._arrays)
        tuned = untuned
        if request.tuned_weights != request.baseline_weights:
            tuned = [*untuned[: len(inputs)], *_tensors(_weights(request.tuned_weights))]
        self._arguments = {False: untuned, True: tuned}
        self._outputs: dict[bool, list[NDArray[np.generic]]] = {}

    def run(self, *, tuned: bool) -> float:
        """Run one build; seconds."""
        main, arguments = self._machines[tuned]["main"], self._arguments[tuned]
        started = time.perf_counter()
        result = main(*arguments)
        seconds = time.perf_counter() - started
        self._outputs[tuned] = _arrays(result)
        return seconds

    def compare(self, rounding: float) -> OutputsCompared:
        """Compare the last outputs of both builds."""
        found = compare(
            self._outputs[False],
            self._outputs[True],
            arguments=self._arrays,
            run_untuned=lambda arrays: _arrays(self._machines[False]["main"](*_tensors(arrays))),
            rounding=rounding,
        )
        return OutputsCompared(agreement=found)


def _weights(path: str) -> list[NDArray[np.generic]]:
    with np.load(path) as stored:
        return [stored[f"arr_{i}"] for i in range(len(stored.files))]


def _tensors(arrays: Arrays) -> list[Any]:
    import tvm

    return [tvm.runtime.tensor(array, tvm.cpu()) for array in arrays]


def _arrays(result: Any) -> list[NDArray[np.generic]]:
    if hasattr(result, "numpy"):
        return [result.numpy()]
    return [array for item in result for array in _arrays(item)]


def _draw(
    rng: np.random.Generator, shape: tuple[int, ...], dtype_name: str, bound: int
) -> NDArray[np.generic]:
    dtype = np.dtype(dtype_name)
    if dtype.kind == "f":
        return rng.standard_normal(size=shape).astype(dtype)
    return rng.integers(0, bound, size=shape).astype(dtype)
