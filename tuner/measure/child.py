"""The measuring child: TVM's runtime and NumPy, nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.measure.inputs import make_inputs, poisoned
from tune_farm.tuner.measure.messages import ChildReady, MeasureDone, MeasureJob
from tune_farm.tuner.measure.stopwatch import Stopwatch
from tune_farm.tuner.measure.tolerance import difference, tolerance
from tune_farm.tuner.types import Failed, Fault, Outcome


def serve(connection: Connection[Any, Any]) -> None:
    """Answer measure jobs until the channel closes."""
    import tvm  # the light runtime: TVM_USE_RUNTIME_LIB is set at birth

    serve_on(connection, Bench(tvm.cpu(), run_fault=_run_error))


def serve_on(connection: Connection[Any, Any], bench: Bench) -> None:
    """Say that it is ready, then answer until the channel closes."""
    connection.send(ChildReady(cores=tuple(sorted(os.sched_getaffinity(0)))))
    while True:
        connection.send(bench.measure(connection.recv()))


class Bench:
    """Holds one task's inputs and reference, and runs libraries on fresh copies of them."""

    def __init__(self, device: Any, *, run_fault: Callable[[str], tuple[Fault, bool]]) -> None:
        """Begin with no task.

        Args:
            device: TVM's.
            run_fault: what an error message of a run says: the fault, and whether this process can
                do nothing more.
        """
        self._device = device
        self._run_fault = run_fault
        self._task_id = ""  #: what the buffers below belong to
        self._inputs: list[NDArray[np.generic]] = []
        self._reference: list[NDArray[np.generic]] = []
        self._tensors: list[Any] = []  #: on the device, filled anew for each run

    def measure(self, job: MeasureJob) -> MeasureDone:
        """Load, check, then time one library; only this process's death is not an answer."""
        import tvm

        started = time.monotonic()
        try:
            module = tvm.runtime.load_module(job.library)
            function = module["main"]
        except Exception as problem:  # noqa: BLE001 - whatever a broken library makes the loader raise
            return _done(Failed(fault=Fault.LOAD_ERROR, detail=str(problem)), started, started)
        try:
            wrong = self._check(job, function)
            checked = time.monotonic()
            if wrong is not None:
                return _done(Failed(fault=Fault.WRONG_RESULT, detail=wrong), started, checked)
            if job.timing is None:
                return _done(None, started, checked)
            arguments = self._arguments(job)
            cores: set[int] = set()
            stopwatch = Stopwatch(module, arguments, self._device)
            outcome = stopwatch.time(job.timing, job.incumbent_seconds, cores)
        except Exception as problem:  # noqa: BLE001 - an error that the operator itself raised
            fault, is_lasting = self._run_fault(str(problem))
            done = _done(Failed(fault=fault, detail=str(problem)), started, started)
            return replace(done, is_broken=is_lasting)
        return _done(outcome, started, checked, tuple(sorted(cores)))

    def _check(self, job: MeasureJob, function: Any) -> str | None:
        if job.makes_reference:
            self._make_reference(job, function)
            return None
        if not job.reference:
            function(*self._arguments(job))
            return None
        self._load(job)
        outputs = self._run_once(job, function)
        if not job.checks:
            return None
        specs = [argument for argument in job.arguments if argument.is_output]
        for spec, actual, right in zip(specs, outputs, self._reference, strict=True):
            allowed = tolerance(spec.dtype, job.reduction_length, right)
            wrong = difference(actual, right, allowed)
            if wrong is not None:
                return wrong
        return None

    def _make_reference(self, job: MeasureJob, function: Any) -> None:
        self._begin(job)
        for positive in (False, True):
            self._inputs = make_inputs(job.arguments, task_id=job.task_id, positive=positive)
            self._reference = self._run_once(job, function)
            if all(_is_finite(output) for output in self._reference):
                break
        # Written to one side first: a reference cut short would fail every candidate of the task.
        part = Path(f"{job.reference}.part.npz")
        np.savez(part, *self._reference, positive=np.array(positive))
        part.replace(job.reference)

    def _load(self, job: MeasureJob) -> None:
        if self._task_id == job.task_id:
            return
        with np.load(job.reference) as stored:
            positive = bool(stored["positive"])
            self._reference = [stored[f"arr_{i}"] for i in range(len(stored.files) - 1)]
        self._begin(job)
        self._inputs = make_inputs(job.arguments, task_id=job.task_id, positive=positive)

    def _begin(self, job: MeasureJob) -> None:
        self._task_id = job.task_id
        self._tensors = []

    def _run_once(self, job: MeasureJob, function: Any) -> list[NDArray[np.generic]]:
        arguments = self._fresh_arguments(job)
        function(*arguments)
        return [
            argument.numpy()
            for argument, spec in zip(arguments, job.arguments, strict=True)
            if spec.is_output
        ]

    def _arguments(self, job: MeasureJob) -> list[Any]:
        import tvm

        if job.reference:
            return self._fresh_arguments(job)
        # A sentinel's, which has no inputs: the task's buffers stay as they are.
        return [tvm.runtime.tensor(poisoned(spec), self._device) for spec in job.arguments]

    def _fresh_arguments(self, job: MeasureJob) -> list[Any]:
        # A candidate may overwrite its inputs: each run finds them as they were.
        import tvm

        inputs: Iterator[NDArray[np.generic]] = iter(self._inputs)
        arrays = [poisoned(spec) if spec.is_output else next(inputs) for spec in job.arguments]
        if not self._tensors:
            self._tensors = [tvm.runtime.tensor(array, self._device) for array in arrays]
        else:
            for tensor, array in zip(self._tensors, arrays, strict=True):
                tensor.copyfrom(array)
        return self._tensors


def _run_error(message: str) -> tuple[Fault, bool]:
    """On a CPU an error that an operator raises is its own, and leaves the process sound."""
    return Fault.RUN_ERROR, False


def _done(
    outcome: Outcome | None, started: float, checked: float, cores: tuple[int, ...] = ()
) -> MeasureDone:
    return MeasureDone(
        outcome=outcome,
        cores_used=cores,
        check_seconds=checked - started,
        measure_seconds=time.monotonic() - checked,
    )


def _is_finite(output: NDArray[np.generic]) -> bool:
    return output.dtype.kind != "f" or bool(np.isfinite(output).all())
