"""TVM traces as JSON text and back; the text is what is sent, stored and hashed."""

from __future__ import annotations

import json
from typing import Any

from tune_farm.tuner.space.intrinsics import named_intrinsics, register_intrinsics


def trace_to_json(trace: Any) -> str:
    """The JSON text of a TVM `Trace`; equal traces give equal text."""
    import tvm_ffi

    # `Trace.as_json` leaves TVM integers inside, which no JSON writer takes.
    as_json = tvm_ffi.get_global_func("s_tir.schedule.TraceAsJSON")
    return json.dumps(_plain(as_json(trace, False)), separators=(",", ":"))


def _plain(value: Any) -> Any:
    """What Python's JSON writer takes in place of TVM's own containers, numbers and index maps."""
    import tvm
    import tvm_ffi
    from tvm.s_tir.meta_schedule.utils import _json_de_tvm

    if isinstance(value, tvm.tirx.IndexMap):
        # As TVM reads them: JSON text of its own, as a text.
        return json.dumps(json.loads(tvm.ir.save_json(value)), separators=(",", ":"))
    if isinstance(value, tvm_ffi.Array):
        return [_plain(each) for each in value]
    return _json_de_tvm(value)


def replay(module: Any, trace_json: str) -> Any:
    """Apply a trace to an IRModule.

    Returns:
        A TVM `Schedule`, whose `mod` is scheduled and whose `trace` equals the given one.

    Raises:
        RuntimeError: (TVM's) the trace does not fit the module.
    """
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import Trace

    register_intrinsics(named_intrinsics(trace_json))
    schedule = Schedule(module)
    Trace.apply_json_to_schedule(json.loads(trace_json), schedule)
    return schedule


def with_dynamic_shared_memory(trace_json: str) -> str:
    """The same trace, its copies into shared memory of a size that is given at the launch."""
    instructions, decided = json.loads(trace_json)
    for kind, _, attributes, _ in instructions:
        if kind == "CacheRead" and attributes[1] == "shared":
            attributes[1] = "shared.dyn"
    return json.dumps([instructions, decided], separators=(",", ":"))
