"""TVM's runtime for NVIDIA GPUs, and the CUDA runtime that it needs."""

from __future__ import annotations

import ctypes
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tune_farm.tuner.errors import EnvironmentUnusableError

_CUDART = "libcudart.so.13"
_REMEDY = "pip install 'tune-farm[cuda]', and an NVIDIA driver for CUDA 13 or newer (580)"


def load_cuda_runtime() -> Any:
    """Load the CUDA runtime, then TVM's; imports TVM.

    Returns:
        TVM's device 0.

    Raises:
        EnvironmentUnusableError: one of the libraries is missing, or TVM sees no device.
    """
    missing = missing_runtime()  # loaded before TVM's library, which finds it by name then
    if missing is not None:
        raise EnvironmentUnusableError(f"there is no {missing}", _REMEDY)
    import tvm

    device = tvm.cuda(0)
    if not device.exist:
        raise EnvironmentUnusableError(
            f"TVM's CUDA runtime sees no device: {_why_not_loaded(tvm)}", _REMEDY
        )
    return device


def missing_runtime() -> str | None:
    """The CUDA runtime's library if it is not here; else it stays loaded, and this is None."""
    for path in (*_installed(), _CUDART):
        try:
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        return None
    return _CUDART


def _installed() -> list[Path]:
    """Where the package index's wheel of the CUDA runtime puts its library."""
    spec = find_spec("nvidia")
    folders = (spec.submodule_search_locations or []) if spec is not None else []
    return [Path(folder) / "cu13" / "lib" / _CUDART for folder in folders]


def _why_not_loaded(tvm: Any) -> str:
    library = Path(tvm.__file__).parent / "lib" / "libtvm_runtime_cuda.so"
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        return str(error)
    return "the driver gives none to this process"
