"""A whole Relax model to a shared library with its cubin, as operators are built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tune_farm.tuner.build.cuda_build import TVM_OWN
from tune_farm.tuner.build.cuda_compile import compile_cuda
from tune_farm.tuner.build.cuda_library import export_cuda_library


def build_cuda_model(module: Any, target: Any, library: str) -> None:
    """Compile by TVM's default pipeline, which schedules what nobody did, and write a library.

    Args:
        module: Relax and TensorIR functions; those that are scheduled are marked so.
        target: TVM's.
        library: path to write.

    Raises:
        CudaCompileError: the device's compiler refuses the code.
    """
    import tvm
    import tvm_ffi

    tvm_ffi.registry.remove_global_func(TVM_OWN)
    built = tvm.compile(module, target).mod
    (device,) = (each for each in _imports(built) if str(each.kind) == "cuda")
    source = device.inspect_source()
    binary = compile_cuda(source, str(target.attrs["arch"]))
    export_cuda_library(built, source, binary.cubin, library)


def _imports(module: Any) -> Iterator[Any]:
    for each in module.imports:
        yield each
        yield from _imports(each)
