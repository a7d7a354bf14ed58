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
    import tvm  # the light runtime: TVM_USE_RUNTIME_LIB is set at birth

    serve_on(connection, tvm.cpu())


def serve_on(connection: Connection[Any, Any], device: Any) -> None:
    """The same, on one of TVM's devices."""
    models = Models(connection.recv(), device)
    connection.send(RanOnce(seconds=0.0))
    while True:
        request = connection.recv()
        if isinstance(request, RunOnce):
            connection.send(RanOnce(seconds=models.run(tuned=request.tuned)))
        elif isinstance(request, CompareOutputs):
            connection.send(models.compare(request.rounding))


class Models:
    """The untuned and the tuned build, and the outputs of the last run of each."""

    def __init__(self, request: LoadModels, device: Any) -> None:
        import tvm
        from tvm.runtime.vm import VirtualMachine

        self._device = device
        self._machines = {
            False: VirtualMachine(tvm.runtime.load_module(request.baseline_library), device),
            True: VirtualMachine(tvm.runtime.load_module(request.tuned_library), device),
        }
        rng = np.random.default_rng(request.seed)
        inputs = [_draw(rng, *spec) for spec in request.inputs]
        #: The untuned build's: what is nudged to learn how far rounding alone moves its output.
        self._arrays = [*inputs, *_weights(request.baseline_weights)]
        untuned = _tensors(self._arrays, device)
        tuned = untuned
        if request.tuned_weights != request.baseline_weights:
            tuned = [*untuned[: len(inputs)], *_tensors(_weights(request.tuned_weights), device)]
        self._arguments = {False: untuned, True: tuned}
        self._outputs: dict[bool, list[NDArray[np.generic]]] = {}

    def run(self, *, tuned: bool) -> float:
        """Run one build; seconds."""
        main, arguments = self._machines[tuned]["main"], self._arguments[tuned]
        self._device.sync()
        started = time.perf_counter()
        result = main(*arguments)
        self._device.sync()
        seconds = time.perf_counter() - started
        self._outputs[tuned] = _arrays(result)
        return seconds

    def compare(self, rounding: float) -> OutputsCompared:
        """Compare the last outputs of both builds."""
        found = compare(
            self._outputs[False],
            self._outputs[True],
            arguments=self._arrays,
            run_untuned=self._run_untuned,
            rounding=rounding,
        )
        return OutputsCompared(agreement=found)

    def _run_untuned(self, arrays: Arrays) -> list[NDArray[np.generic]]:
        return _arrays(self._machines[False]["main"](*_tensors(arrays, self._device)))


def _weights(path: str) -> list[NDArray[np.generic]]:
    with np.load(path) as stored:
        return [stored[f"arr_{i}"] for i in range(len(stored.files))]


def _tensors(arrays: Arrays, device: Any) -> list[Any]:
    import tvm

    return [tvm.runtime.tensor(array, device) for array in arrays]


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
