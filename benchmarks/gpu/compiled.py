"""One schedule to a cubin with all that a launch without TVM takes; and what is right."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.gpu.bundle import Schedule
from tune_farm.tuner.build import cuda_build
from tune_farm.tuner.build.cuda_compile import compile_cuda
from tune_farm.tuner.build.cuda_library import export_cuda_library
from tune_farm.tuner.build.cuda_usage import BlockLimits, usage_of, why_pruned
from tune_farm.tuner.measure.inputs import make_inputs, poisoned
from tune_farm.tuner.space.traces import replay
from tune_farm.tuner.types import Candidate, Task

#: What TVM adds to an argument's name where a kernel gets its address.
_POINTER = "_ptr"
#: Elements of an output that are compared.
_PLACES = 256
_SIGNATURE = re.compile(r"__launch_bounds__\(\d+\)\s+(?P<name>\w+)\((?P<parameters>[^)]*)\)\s*\{")


#: Places of an output, and what stands there.
Reference: TypeAlias = tuple[tuple[int, ...], tuple[float, ...]]


def compiled(
    task: Task,
    candidate: Candidate,
    schedule: Schedule,
    folder: Path,
    place: Path,
    scratch: Path,
    ships: bool,
) -> Schedule | None:
    """Compile a schedule as the product does; None if it is not one kernel worth a measurement.

    The steps are `build_cuda`'s, which keeps the cubin to itself.

    Args:
        task: the operator.
        candidate: the schedule's trace.
        schedule: what is known of it.
        folder: of the bundle.
        place: in there, for its files.
        scratch: for others.
        ships: write the library that the product ships, too.
    """
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    target = tvm.target.Target(json.loads(task.target_json))
    module = replay(tvm.ir.load_json(task.module_json), candidate.trace_json).mod
    module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
    host, devices = cuda_build._lower(module, target)
    dynamic = cuda_build._dynamic_shared_bytes(devices)
    built = cuda_build._generate(host, devices)
    (device,) = built.imports
    source = device.inspect_source()
    binary = compile_cuda(source, str(target.attrs["arch"]))
    usage = usage_of(source, binary.log, dynamic)
    if len(usage) != 1 or why_pruned(usage, BlockLimits.of_target(target.attrs)) is not None:
        return None
    (functions,) = (each.functions for each in devices.values())
    (function,) = functions.values()
    grid, block = _extents(function.body)
    name = f"{candidate.id[:12]}.cubin"
    (folder / place / name).write_bytes(binary.cubin)
    library = ""
    if ships:
        library = f"{candidate.id[:12]}.so"
        export_cuda_library(built, source, binary.cubin, str(scratch / library))
        (folder / place / library).write_bytes((scratch / library).read_bytes())
    return replace(
        schedule,
        code=str(place / name),
        library=str(place / library) if library else "",
        function=usage[0].name,
        grid=grid,
        block=block,
        shared_bytes=usage[0].dynamic_shared_bytes,
        order=parameter_order(source, usage[0].name, argument_names(task)),
        registers=usage[0].registers,
    )


def argument_names(task: Task) -> tuple[str, ...]:
    """An operator's arguments by the names that its kernels give them."""
    import tvm

    (function,) = tvm.ir.load_json(task.module_json).functions.values()
    return tuple(str(param.name) for param in function.params)


def parameter_order(source: str, kernel: str, arguments: tuple[str, ...]) -> tuple[int, ...]:
    """A kernel's parameters, as places among an operator's arguments.

    Args:
        source: CUDA C++.
        kernel: its name.
        arguments: names in the order of a call.

    Raises:
        ValueError: a parameter is none of the arguments.
    """
    found = next(each for each in _SIGNATURE.finditer(source) if each["name"] == kernel)
    names = [each.split()[-1].lstrip("*") for each in found["parameters"].split(",")]
    return tuple(arguments.index(name.removesuffix(_POINTER)) for name in names)


def _extents(body: Any) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Grid and block of a lowered kernel."""
    import tvm_ffi
    from tvm import tirx

    extents: dict[str, int] = {}

    def attribute(node: Any) -> None:
        if node.attr_key == "thread_extent":
            extents[str(node.node.thread_tag)] = int(node.value)

    tvm_ffi.structural_walk(body, [(tirx.AttrStmt, attribute)])

    def three(kind: str) -> tuple[int, int, int]:
        return tuple(extents.get(f"{kind}.{axis}", 1) for axis in "xyz")  # type: ignore[return-value]

    return three("blockIdx"), three("threadIdx")


def reference(task: Task) -> Reference:
    """Some places of an operator's output and what stands there, computed on this CPU."""
    import tvm

    module = tvm.ir.load_json(task.module_json)
    function = tvm.tirx.build(module, target=tvm.target.Target({"kind": "llvm"}))["main"]
    inputs = iter(make_inputs(task.arguments, task_id=task.id, positive=False))
    values = [poisoned(each) if each.is_output else next(inputs) for each in task.arguments]
    arguments = [tvm.runtime.tensor(each) for each in values]
    function(*arguments)
    (output,) = (
        argument.numpy().reshape(-1)
        for argument, spec in zip(arguments, task.arguments, strict=True)
        if spec.is_output
    )
    places = np.random.default_rng(0).choice(len(output), min(_PLACES, len(output)), replace=False)
    chosen = tuple(int(each) for each in np.sort(places))
    return chosen, tuple(float(output[each]) for each in chosen)
