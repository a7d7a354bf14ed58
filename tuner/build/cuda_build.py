"""A scheduled module to a shared library with its cubin; what can't win is told, not written."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

from tune_farm.tuner.build.cuda_compile import compile_cuda
from tune_farm.tuner.build.cuda_library import export_cuda_library
from tune_farm.tuner.build.cuda_usage import BlockLimits, usage_of, why_pruned
from tune_farm.tuner.types import KernelUsage

#: Where TVM finds a CUDA driver, it registers what makes its own modules, and compiles in there.
TVM_OWN = "ffi.Module.create.cuda"


class PrunedError(Exception):
    """The candidate is not worth a measurement; the message says why."""


def schedule_by_default(module: Any, target: Any) -> Any:
    """Schedule an untuned module by the rules that TVM compiles untuned CUDA models with."""
    import tvm
    from tvm.s_tir import dlight

    rules = (
        dlight.gpu.Matmul(),
        dlight.gpu.GEMV(),
        dlight.gpu.Reduction(),
        dlight.gpu.GeneralReduction(),
        dlight.gpu.Fallback(),
    )
    copy = tvm.IRModule(dict(module.functions.items()))  # the pass changes the one it is given
    with target:
        return dlight.ApplyDefaultSchedule(*rules)(copy)


def build_cuda(
    module: Any, target: Any, library: str, *, is_new: Callable[[str], str | None] | None
) -> tuple[KernelUsage, ...]:
    """Lower, compile and write a library; returns what its kernels take.

    Args:
        module: scheduled IRModule.
        target: TVM's, with the device's own limits.
        library: path to write.
        is_new: given a hash of the code, says whose it is if it was built before. None: build
            in any case, and whatever the binary takes, for the untuned operator.

    Raises:
        PrunedError: the code was built before, spills, or can't be launched.
        CudaCompileError: the device's compiler refuses the code.
    """
    import tvm_ffi

    host, devices = _lower(module, target)
    dynamic = _dynamic_shared_bytes(devices)
    compiled = _generate(host, devices)
    (device,) = compiled.imports
    source = device.inspect_source()
    if is_new is not None:
        code = hashlib.sha256(f"{tvm_ffi.structural_hash(host)}\n{source}".encode()).hexdigest()
        owner = is_new(code)
        if owner is not None:
            raise PrunedError(f"the same code as candidate {owner}")
    binary = compile_cuda(source, str(target.attrs["arch"]))
    kernels = usage_of(source, binary.log, dynamic)
    if is_new is not None:
        reason = why_pruned(kernels, BlockLimits.of_target(target.attrs))
        if reason is not None:
            raise PrunedError(reason)
    export_cuda_library(compiled, source, binary.cubin, library)
    return tuple(kernels)


def _lower(module: Any, target: Any) -> tuple[Any, dict[Any, Any]]:
    """All passes of `tvm.tirx.build`: the host's module, and the devices' by target."""
    import tvm
    from tvm.tirx.build import split_host_device_mods

    pipeline, host_passes, device_passes = tvm.tirx.get_default_tir_pipeline(target)
    bound = tvm.tirx.transform.BindTarget(target.with_host("llvm"))(module)
    # A third of the time of long kernels; the device's compiler finds the same expressions again.
    with tvm.transform.PassContext(config={"tirx.disable_cse_tir": True}):
        host, devices = split_host_device_mods(pipeline(bound))
    return host_passes()(host), {each: device_passes()(one) for each, one in devices.items()}


def _generate(host: Any, devices: dict[Any, Any]) -> Any:
    """The runtime module, its device code left as source whether there is a driver or not."""
    import tvm
    import tvm_ffi
    from tvm.tirx.build import tir_to_runtime

    tvm_ffi.registry.remove_global_func(TVM_OWN)
    return tir_to_runtime(host, devices, tvm.target.Target("llvm"))


def _dynamic_shared_bytes(devices: dict[Any, Any]) -> dict[str, int]:
    """What launches ask for, by kernel."""
    import tvm_ffi
    from tvm import tirx

    asked: dict[str, int] = {}
    for device in devices.values():
        for variable, function in device.functions.items():
            found: list[int] = []

            def allocation(node: Any, found: list[int] = found) -> None:
                kind = node.buffer.ty
                if str(kind.storage_scope) == "shared.dyn":
                    found.append(_bytes_of(kind))

            tvm_ffi.structural_walk(function.body, (tirx.AllocBuffer, allocation))
            asked[str(variable.name_hint)] = sum(found)
    return asked


def _bytes_of(kind: Any) -> int:
    import tvm

    element = tvm.DataType(str(kind.dtype))
    size = math.prod(int(each) for each in kind.shape)
    return size * max(1, int(element.bits) * int(element.lanes) // 8)
