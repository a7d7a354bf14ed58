"""Registers only the tensor intrinsics that are used.

TVM imports `tvm.s_tir.tensor_intrin` whenever a `TuneContext` is made. That package parses the
intrinsics of every architecture: 10 to 40 s in each process, half a second for a CPU's own. CUDA's
are declared here and parsed when one is asked for by name, a tenth of a second each.
"""

from __future__ import annotations

import importlib
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

_PACKAGE = "tvm.s_tir.tensor_intrin"
_BY_KIND = {"cuda": "cuda", "rocm": "rocm"}
_BY_KEY = {"arm_cpu": "arm_cpu", "riscv_cpu": "riscv_cpu"}
#: What returns an intrinsic's description and implementation.
_Parse: TypeAlias = Callable[[], tuple[Any, Any]]
#: CUDA's intrinsics by name, until each is registered. As TVM's registry, it is the process's.
_declared: dict[str, _Parse] = {}
#: Functions of TVM's module that tell the names of a group to who is about to use it.
_GROUPS = ("get_wmma_intrin_group", "get_mma_intrin_group")
_NAME = re.compile(r"\b(?:wmma|mma)_\w+")


def load_intrinsics(target: Any, *, everything: bool = False) -> None:
    """Make the package importable without its contents; import what a TVM target can use.

    Args:
        target: TVM's.
        everything: whether CUDA's are all registered, too, which takes half a minute. By default
            each is when `register_intrinsics` names it, or TVM's default schedules ask for it.
    """
    if str(target.kind.name) != "cuda":
        _make_package()
        importlib.import_module(f"{_PACKAGE}.{_module_of(target)}")
        return
    _declare()
    if everything:
        register_intrinsics(list(_declared))


def register_intrinsics(names: Iterable[str]) -> None:
    """Register CUDA's intrinsics, those that are not yet; other names are left to TVM."""
    from tvm.s_tir import TensorIntrin

    for name in sorted(names):
        _declare()
        parse = _declared.pop(name, None)
        if parse is not None:
            TensorIntrin.register(name, *parse())


def named_intrinsics(text: str) -> set[str]:
    """Names of CUDA's intrinsics in traces, given as JSON text."""
    return set(_NAME.findall(text))


def _make_package() -> None:
    import tvm.s_tir

    if _PACKAGE not in sys.modules:
        package = types.ModuleType(_PACKAGE)
        package.__path__ = [str(Path(str(tvm.s_tir.__file__)).parent / "tensor_intrin")]
        sys.modules[_PACKAGE] = package
        tvm.s_tir.tensor_intrin = package


def _declare() -> None:
    """Import TVM's module of CUDA's intrinsics with their TVMScript left unparsed, if it is not."""
    import tvm.s_tir
    from tvm.script import tirx

    name = f"{_PACKAGE}.{_BY_KIND['cuda']}"
    if name in sys.modules:
        return
    _make_package()
    parse = tirx.prim_func

    def unparsed(**options: Any) -> Any:
        return lambda function: lambda: parse(**options)(function)

    def declare(intrinsic: str, *functions: Callable[[], Any]) -> None:
        description, implementation = functions
        _declared[intrinsic] = lambda: (description(), implementation())

    registry = tvm.s_tir.TensorIntrin
    stand_in = types.SimpleNamespace(register=declare)
    with _swapped(tirx, "prim_func", unparsed), _swapped(tvm.s_tir, "TensorIntrin", stand_in):
        module = importlib.import_module(name)
    setattr(module, "TensorIntrin", registry)  # noqa: B010 - a module's own name for it
    for each in _GROUPS:
        setattr(module, each, _registering(getattr(module, each)))
    _declared.update(_bfloat16(module))


@contextmanager
def _swapped(owner: Any, name: str, value: Any) -> Iterator[None]:
    old = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, old)


def _registering(group: Callable[..., dict[str, str]]) -> Callable[..., dict[str, str]]:
    """The same function; what it names is registered before it is used."""

    def named(*arguments: Any, **options: Any) -> dict[str, str]:
        names = group(*arguments, **options)
        register_intrinsics(names.values())
        return names

    return named


def _bfloat16(module: Any) -> dict[str, _Parse]:
    """What TVM has no names for: bfloat16 operands of WMMA, in fragments of 16 x 16 x 16."""
    sizes, kind, scope = (16, 16, 16), "bfloat16", "shared.dyn"
    load, multiply = module.get_wmma_load_intrin, module.get_wmma_sync_intrin
    prefix = "wmma_load_16x16x16_bf16"
    return {
        f"{prefix}_a_shared_dyn": lambda: load(*sizes, kind, scope, False, False),
        f"{prefix}_b_shared_dyn": lambda: load(*sizes, kind, scope, True, False),
        f"{prefix}_b_trans_shared_dyn": lambda: load(*sizes, kind, scope, True, True),
        "wmma_sync_16x16x16_bf16bf16f32": lambda: multiply(*sizes, kind, "float32", False),
        "wmma_sync_16x16x16_bf16bf16f32_trans": lambda: multiply(*sizes, kind, "float32", True),
    }


def _module_of(target: Any) -> str:
    kind = str(target.kind.name)
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    return next((_BY_KEY[key] for key in map(str, target.keys) if key in _BY_KEY), "x86")
