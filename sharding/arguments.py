"""The arguments of a PrimFunc: shapes, types, and which of them it writes."""

from __future__ import annotations

from tvm import tirx
from tvm.tirx.buffer import BufferType

from tune_farm.sharding.cost import static_size
from tune_farm.sharding.structure import written_buffers
from tune_farm.tuner.types import TensorSpec


def symbolic_sizes(function: tirx.PrimFunc) -> tuple[str, ...]:
    """Names of the unknown sizes in a function's signature, sorted."""
    unknown: set[str] = set()
    for param in function.params:
        if not isinstance(param.ty, BufferType):
            unknown.add(param.name)
            continue
        for size in param.ty.shape:
            if not isinstance(size, tirx.IntImm):
                unknown |= {var.name for var in tirx.analysis.undefined_vars(size, [])}
    return tuple(sorted(unknown))


def argument_specs(function: tirx.PrimFunc) -> tuple[TensorSpec, ...]:
    """The arguments in call order; all that are written come last."""
    written = written_buffers(function)
    specs = tuple(
        TensorSpec(
            shape=tuple(static_size(size) for size in param.ty.shape),
            dtype=str(param.ty.dtype),
            is_output=any(param.same_as(buffer) for buffer in written),
        )
        for param in function.params
    )
    flags = [spec.is_output for spec in specs]
    assert any(flags), "a tensor program writes something"
    assert flags == sorted(flags), f"outputs are the last arguments: {flags}"
    return specs
