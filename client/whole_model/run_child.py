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
            connection.send(models.compare())


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
        self._arrays = [_draw(rng, *spec) for spec in request.inputs]
        with np.load(request.weights) as stored:
            self._arrays += [stored[f"arr_{i}"] for i in range(len(stored.files))]
        self._arguments = _tensors(self._arrays)
        self._outputs: dict[bool, list[NDArray[np.generic]]] = {}

    def run(self, *, tuned: bool) -> float:
        """Run one build; seconds."""
        main = self._machines[tuned]["main"]
        started = time.perf_counter()
        result = main(*self._arguments)
        seconds = time.perf_counter() - started
        self._outputs[tuned] = _arrays(result)
        return seconds

    def compare(self) -> OutputsCompared:
        """Compare the last outputs of both builds."""
        found = compare(
            self._outputs[False],
            self._outputs[True],
            arguments=self._arrays,
            run_untuned=lambda arrays: _arrays(self._machines[False]["main"](*_tensors(arrays))),
        )
        return OutputsCompared(agreement=found)


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
