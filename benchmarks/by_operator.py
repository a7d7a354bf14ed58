"""Where a tuned model's time goes, beside onnxruntime's: operators that compute the same in pairs.

`python -m benchmarks.by_operator MODEL RUN_DIRECTORY`, with the cores to use set from outside;
prints one JSON object: seconds of one inference by operator and side.

Two operators are the same where they give as many elements, each a sum of as many products: that
finds a convolution whatever its layout and algorithm, and whatever was fused to it.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.latency import compiled, onnx_session, tuned_model

RUNS = 10
_KERNEL = 9  # taps of what Winograd's algorithm computes here

#: (elements of the output, products summed up in each); (0, 1) for all that sums up nothing.
Key = tuple[int, int]
_OTHER: Key = (0, 1)


@dataclass(slots=True)
class Ledger:
    """Seconds of each run by operator, and what the operators are called."""

    runs: list[dict[Key, float]] = field(default_factory=list)
    calls: dict[Key, int] = field(default_factory=dict)
    names: dict[Key, str] = field(default_factory=dict)

    def add(self, entries: Iterable[tuple[Key, str, float]]) -> None:
        """One run."""
        seconds: dict[Key, float] = defaultdict(float)
        calls: dict[Key, int] = defaultdict(int)
        for key, name, taken in entries:
            seconds[key] += taken
            calls[key] += 1
            self.names.setdefault(key, name)
        self.runs.append(seconds)
        self.calls = dict(calls)

    def medians(self) -> dict[Key, float]:
        """Seconds of one inference by operator."""
        keys = {key for run in self.runs for key in run}
        return {key: statistics.median(run.get(key, 0.0) for run in self.runs) for key in keys}


class Watch:
    """Called by TVM's virtual machine before and after each function; times them."""

    def __init__(self, reductions: Mapping[str, int]) -> None:
        self._reductions = reductions
        self._started = 0.0
        self._winograd = 0.0  #: seconds of the convolution whose operators run just now
        self._products = 0  #: summed up in each of its outputs
        self.entries: list[tuple[Key, str, float]] = []

    def __call__(self, _func: Any, name: str, before: bool, _result: Any, *arguments: Any) -> int:
        """Take the time; 0 tells the machine to go on."""
        if before:
            self._started = time.perf_counter()
            return 0
        self.note(name, time.perf_counter() - self._started, [_shape(each) for each in arguments])
        return 0

    def note(self, name: str, seconds: float, shapes: Sequence[tuple[int, ...] | None]) -> None:
        """One function's call, with the shapes of its arguments, outputs last."""
        known = [shape for shape in shapes if shape is not None]
        if not known or name.startswith("vm."):
            return
        elements = _product(known[-1])
        if name.startswith("winograd_input"):
            self._winograd, self._products = seconds, _KERNEL * known[0][-1]
        elif name.startswith("winograd_matmul"):
            self._winograd += seconds
        elif name.startswith("winograd_output"):
            key = elements, self._products
            self.entries.append((key, f"{name} (winograd)", self._winograd + seconds))
        else:
            products = self._reductions.get(name, 1)
            self.entries.append(((elements, products) if products > 1 else _OTHER, name, seconds))


def _shape(value: Any) -> tuple[int, ...] | None:
    shape = getattr(value, "shape", None)
    return None if shape is None else tuple(int(extent) for extent in shape)


def _product(shape: Iterable[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def ours(model: str, directory: Path) -> Ledger:
    """Time the functions of a run's tuned model."""
    import tvm

    from tune_farm.sharding.extract import extract

    lowered, target_json = tuned_model(model, directory)
    machine, arguments = compiled(lowered, directory, target_json)
    target = tvm.target.Target(json.loads(target_json))
    reductions = _reductions(lowered.module, extract(lowered, target).tasks)
    ledger = Ledger()
    for _ in range(RUNS + 1):
        watch = Watch(reductions)
        machine.set_instrument(watch)
        machine["main"](*arguments)
        ledger.add(watch.entries)
    ledger.runs = ledger.runs[1:]  # the first warms up
    return ledger


def _reductions(module: Any, tasks: Iterable[Any]) -> dict[str, int]:
    """Products that one output of each function sums up."""
    from tune_farm.sharding.extract import normalize, workload_id

    by_id = {task.id: task.reduction_length for task in tasks}
    found = {}
    for variable, function in module.functions_items():
        if variable.name_hint != "main" and hasattr(function, "buffer_map"):
            key = workload_id(normalize(function))
            found[variable.name_hint] = by_id.get(key, 1)
    return found


def onnxruntime(model: str, directory: Path) -> Ledger:
    """Time onnxruntime's nodes, after all its optimizations."""
    with tempfile.TemporaryDirectory() as folder:
        session, feed = onnx_session(model, directory, profile=str(Path(folder) / "profile"))
        for _ in range(RUNS + 1):
            session.run(None, feed)
        events = json.loads(Path(session.end_profiling()).read_text())
    ledger = Ledger()
    for entries in runs_of(events)[1:]:
        ledger.add(entries)
    return ledger


def runs_of(events: Iterable[Mapping[str, Any]]) -> list[list[tuple[Key, str, float]]]:
    """The nodes of each run of onnxruntime's profile, in which a run ends after its nodes."""
    runs: list[list[tuple[Key, str, float]]] = []
    entries: list[tuple[Key, str, float]] = []
    for event in sorted(events, key=lambda event: event["ts"] + event.get("dur", 0)):
        if event.get("name") == "model_run":
            runs.append(entries)
            entries = []
        elif event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            seconds = event["dur"] / 1e6
            entries.append((node_key(event["args"]), event["args"]["op_name"], seconds))
    return runs


def node_key(arguments: Mapping[str, Any]) -> Key:
    """What a node of onnxruntime's profile computes."""
    kind = arguments["op_name"]
    inputs = [shape for each in arguments["input_type_shape"] for shape in each.values()]
    outputs = [shape for each in arguments["output_type_shape"] for shape in each.values()]
    if "Conv" in kind:
        return _product(outputs[0]), _product(inputs[1][1:])
    if "MatMul" in kind or "Gemm" in kind:
        return _product(outputs[0]), int(inputs[0][-1])
    return _OTHER


def main() -> None:
    """Time both sides, one after the other."""
    model, directory = sys.argv[1], Path(sys.argv[2])
    sides = {"tune-farm": ours(model, directory), "onnxruntime": onnxruntime(model, directory)}
    rows = [
        {
            "elements": key[0],
            "products": key[1],
            **{
                side: {
                    "name": ledger.names.get(key),
                    "calls": ledger.calls.get(key, 0),
                    "seconds": ledger.medians().get(key, 0.0),
                }
                for side, ledger in sides.items()
            },
        }
        for key in sorted({key for ledger in sides.values() for key in ledger.names})
    ]
    print(json.dumps({"rows": rows}), flush=True)


if __name__ == "__main__":
    main()
