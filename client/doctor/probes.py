"""What tuning stands on, tried out for real; each probe prints a line of what it found, or raises.

`trial.try_probe` runs each in a process of its own: a bad TVM does not raise, it dies.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def tvm_json() -> str:
    """Write a module as JSON and read it back."""
    import tvm

    module = _addition()
    again = tvm.ir.load_json(tvm.ir.save_json(module))
    tvm.ir.assert_structural_equal(module, again)
    return f"TVM {tvm.__version__}: a module survives JSON"


def tvm_build() -> str:
    """Build, export, load and run one addition, as every candidate is."""
    import numpy as np
    import tvm

    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tune-farm-") as folder:
        library = Path(folder, "addition.so")
        tvm.compile(_addition(), target=tvm.target.Target({"kind": "llvm"})).export_library(
            str(library)
        )
        loaded = tvm.runtime.load_module(str(library))
        arrays = [tvm.runtime.tensor(np.full(64, value, "float32")) for value in (1.0, 2.0, 0.0)]
        loaded["main"](*arrays)
        assert (arrays[2].numpy() == 3.0).all(), "1 + 2 is not 3"
    return f"built, loaded and ran in {time.monotonic() - started:.1f} s"


def _addition() -> Any:
    import tvm
    from tvm import te

    first, second = (te.placeholder((64,), "float32", name=name) for name in ("first", "second"))
    total = te.compute((64,), lambda index: first[index] + second[index], name="total")
    return tvm.IRModule({"main": te.create_prim_func([first, second, total])})


PROBES: dict[str, Callable[[], str]] = {"tvm-json": tvm_json, "tvm-build": tvm_build}


def main(name: str) -> None:
    """Run one probe; its line goes to stdout."""
    sys.stdout.write(PROBES[name]() + "\n")
