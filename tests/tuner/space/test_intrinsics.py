"""A search on a CPU does not pay for the tensor cores of every GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.tuner.operators import TARGET_JSON
from tune_farm.tuner.space.intrinsics import _module_of

MAKE_CONTEXT = """
import json, sys
import tvm
from tvm import te
from tvm.s_tir.meta_schedule import TuneContext
from tune_farm.tuner.space.intrinsics import load_intrinsics
target = tvm.target.Target(sys.argv[1])
load_intrinsics(target)
load_intrinsics(target)
data = te.placeholder((8,), "float32", name="A")
function = te.create_prim_func([data, te.compute((8,), lambda i: data[i] + 1)])
module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
context = TuneContext(module, target=target, space_generator="post-order-apply")
assert context.generate_design_space()
print(json.dumps([name for name in sys.modules if name.startswith("tvm.s_tir.tensor_intrin.")]))
"""


def test_a_context_is_made_without_the_intrinsics_of_others() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", MAKE_CONTEXT, TARGET_JSON],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    loaded = {name.rpartition(".")[2] for name in json.loads(done.stdout)}
    assert "x86" in loaded
    assert loaded.isdisjoint({"cuda", "rocm", "arm_cpu", "metal", "hexagon"})


@pytest.mark.parametrize(
    ("kind", "keys", "module"),
    [
        ("llvm", ["cpu"], "x86"),
        ("llvm", ["arm_cpu", "cpu"], "arm_cpu"),
        ("llvm", ["riscv_cpu", "cpu"], "riscv_cpu"),
        ("cuda", ["cuda", "gpu"], "cuda"),
        ("rocm", ["rocm", "gpu"], "rocm"),
    ],
)
def test_each_target_gets_its_own(kind: str, keys: list[str], module: str) -> None:
    assert _module_of(SimpleNamespace(kind=SimpleNamespace(name=kind), keys=keys)) == module
