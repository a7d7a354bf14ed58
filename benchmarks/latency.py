"""Holds one build of a model and runs it once for each line on stdin; prints the seconds.

`python -m benchmarks.latency SIDE MODEL RUN_DIRECTORY`, with the cores to use set from outside.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tune_farm.client.whole_model.compile_child import compile_model
from tune_farm.client.whole_model.messages import CompileModel
from tune_farm.server.run_directory import TUNING_RECORDS, WORKLOADS
from tune_farm.sharding.layout import Layout
from tune_farm.sharding.lower import InputSpec, LoweredModel, lower
from tune_farm.sharding.models.load import load_model
from tune_farm.sharding.models.spec import ModelSpec
from tune_farm.sharding.winograd.rewrite import rewrite

Run = Callable[[], object]


def inputs_of(specs: Sequence[InputSpec]) -> list[np.ndarray]:
    """The same inputs for every side; ids and masks are 0 or 1."""
    rng = np.random.default_rng(0)
    arrays = []
    for spec in specs:
        shape = [int(extent) for extent in spec.shape]
        if np.dtype(spec.dtype).kind == "f":
            arrays.append(rng.standard_normal(shape).astype(spec.dtype))
        else:
            arrays.append(rng.integers(0, 2, shape).astype(spec.dtype))
    return arrays


def tuned(model: str, directory: Path) -> Run:
    """The model as a run directory has it."""
    return _tvm(*tuned_model(model, directory), directory)


def tuned_model(model: str, directory: Path) -> tuple[LoweredModel, str]:
    """A run's model in the form that it tuned, and the target."""
    header = json.loads((directory / "records.jsonl").read_text().splitlines()[0])
    layout, fast_math = Layout(header["layout"]), header["fast_math"]
    lowered = _lowered(model, header["target"], layout, fast_math=fast_math)
    summary = json.loads((directory / "summary.json").read_text())
    return rewrite(lowered, summary.get("winograd_tiles", {})), header["target"]


def _tvm(lowered: LoweredModel, target_json: str, directory: Path) -> Run:
    machine, arguments = compiled(lowered, directory, target_json)
    main = machine["main"]
    return lambda: main(*arguments)


def compiled(lowered: LoweredModel, directory: Path, target_json: str) -> tuple[Any, list[Any]]:
    """A module compiled with the database in a directory, and what it is called with."""
    import tvm
    from tvm.relax import VirtualMachine

    with tempfile.TemporaryDirectory() as folder:
        module, library = Path(folder) / "model.json", Path(folder) / "model.so"
        module.write_text(tvm.ir.save_json(lowered.module))
        workloads, records = directory / WORKLOADS, directory / TUNING_RECORDS
        compile_model(
            CompileModel(
                module=str(module),
                database=(str(workloads), str(records)),
                target_json=target_json,
                library=str(library),
            )
        )
        machine = VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    arrays = [*inputs_of(lowered.inputs), *lowered.weights]
    return machine, [tvm.runtime.tensor(array, tvm.cpu()) for array in arrays]


def metaschedule(model: str, work_dir: Path) -> Run:
    """The model as given, with the best schedules of TVM's own database."""
    from tune_farm.server.place import cpu_place
    from tune_farm.server.preparation import make_target

    place = cpu_place(100, 1)
    target_json = str(make_target(None, place.device, place.machine))
    return _tvm(_lowered(model, target_json, Layout.GIVEN), target_json, work_dir)


def onnxruntime(model: str, directory: Path) -> Run:
    """The same graph and weights in onnxruntime, all its optimizations on."""
    session, feed = onnx_session(model, directory)
    return lambda: session.run(None, feed)


def onnx_session(
    model: str, directory: Path, *, profile: str | None = None
) -> tuple[Any, dict[str, np.ndarray]]:
    """A session, and what it is run on; it writes a profile where it is told to."""
    import onnxruntime as ort

    header = json.loads((directory / "records.jsonl").read_text().splitlines()[0])
    lowered = _lowered(model, header["target"], Layout.GIVEN)
    options = ort.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    options.inter_op_num_threads = 1
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, profile
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    proto = load_model(ModelSpec(model=model), with_weights=True).proto
    session = ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [spec.name for spec in lowered.inputs]
    return session, dict(zip(names, inputs_of(lowered.inputs), strict=True))


def _lowered(
    model: str, target_json: str, layout: Layout, *, fast_math: bool = False
) -> LoweredModel:
    import tvm

    loaded = load_model(ModelSpec(model=model), with_weights=True)
    target = tvm.target.Target(json.loads(target_json))
    return lower(loaded, target, layout, fast_math=fast_math)


SIDES: dict[str, Callable[[str, Path], Run]] = {
    "tune-farm": tuned,
    "metaschedule": metaschedule,
    "onnxruntime": onnxruntime,
}


def main() -> None:
    """Load, then run as told."""
    side, model, directory = sys.argv[1:4]
    run = SIDES[side](model, Path(directory))
    run()
    print(json.dumps({"ready": True}), flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        run()
        print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)


if __name__ == "__main__":
    main()
