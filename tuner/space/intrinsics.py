"""Loads only the tensor intrinsics that a target can use.

TVM imports `tvm.s_tir.tensor_intrin` whenever a `TuneContext` is made. That package parses the
intrinsics of every architecture: 10 to 40 s in each process, half a second for a CPU's own.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

_PACKAGE = "tvm.s_tir.tensor_intrin"
_BY_KIND = {"cuda": "cuda", "rocm": "rocm"}
_BY_KEY = {"arm_cpu": "arm_cpu", "riscv_cpu": "riscv_cpu"}


def load_intrinsics(target: Any, *, tensor_cores: bool = True) -> None:
    """Make the package importable without its contents; import what a TVM target can use.

    Args:
        target: TVM's.
        tensor_cores: whether sketches or traces at hand use a GPU's matrix units. Their intrinsics
            are nearly all that a GPU has, and are the slow ones: without, none is loaded for it.
    """
    import tvm.s_tir

    if _PACKAGE not in sys.modules:
        package = types.ModuleType(_PACKAGE)
        package.__path__ = [str(Path(str(tvm.s_tir.__file__)).parent / "tensor_intrin")]
        sys.modules[_PACKAGE] = package
        tvm.s_tir.tensor_intrin = package
    if tensor_cores or str(target.kind.name) not in _BY_KIND:
        importlib.import_module(f"{_PACKAGE}.{_module_of(target)}")


def _module_of(target: Any) -> str:
    kind = str(target.kind.name)
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    return next((_BY_KEY[key] for key in map(str, target.keys) if key in _BY_KEY), "x86")
