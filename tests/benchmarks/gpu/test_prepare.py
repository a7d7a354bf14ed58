"""The bundle as it is really made: compiled, hashed, and able to run by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu.bundle import MOST_BYTES, read_bundle
from benchmarks.gpu.compiled import parameter_order
from benchmarks.gpu.prepare import make, registers_of
from tune_farm.tuner.build.cuda_compile import missing_compiler

needs_compiler = pytest.mark.skipif(
    missing_compiler() is not None, reason=missing_compiler() or "there is one"
)
_SOURCE = """
extern "C" __global__ void __launch_bounds__(64) main_kernel(float* __restrict__ a_ptr, float* b);
extern "C" __global__ void __launch_bounds__(64) main_kernel(float* __restrict__ a_ptr, float* b) {
"""
_LOG = """
ptxas info    : Compiling entry function 'one' for 'sm_90'
ptxas info    : Used 40 registers, used 1 barriers
ptxas info    : Compiling entry function 'two' for 'sm_90'
ptxas info    : Used 8 registers
"""


@needs_compiler
@pytest.mark.slow
def test_a_small_bundle_runs_by_itself(tmp_path: Path) -> None:
    made = make(tmp_path / "bundle", capabilities=["9.0"], quick=True, with_tvm=False)

    bundle = read_bundle(made.folder)
    assert bundle == made
    total = sum(each.stat().st_size for each in made.folder.rglob("*") if each.is_file())
    assert total < MOST_BYTES
    assert bundle.registers["sm_90"]["product_128x128_8x8"] > 64
    (operator,) = bundle.operators
    assert len(operator.schedules) >= 4
    assert sum(bool(each.library) for each in operator.schedules) == 1
    for schedule in operator.schedules:
        assert (made.folder / schedule.code).read_bytes().startswith(b"\x7fELF")
        assert sorted(schedule.order) == list(range(len(operator.arguments)))
        x, y, z = schedule.grid
        assert x * y * z == schedule.tiles["blocks"]
        x, y, z = schedule.block
        assert x * y * z == schedule.tiles["threads"]
        assert 0 < schedule.registers <= 255
    assert len(operator.reference) == len(operator.places) == 256
    assert any(operator.reference)
    file = tmp_path / "found.json"
    done = subprocess.run(
        [
            *(sys.executable, "bundle/benchmarks/gpu/check.py", "run", "--device", "sim:h100"),
            *("--parts", "driver,elsewhere,tvm", "--json", str(file)),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(file.read_text())["results"]["parts_done"] == 3


def test_parameters_are_found_by_name() -> None:
    assert parameter_order(_SOURCE, "main_kernel", ("b", "a")) == (1, 0)
    with pytest.raises(ValueError, match="not in tuple"):
        parameter_order(_SOURCE, "main_kernel", ("b", "c"))


def test_registers_are_read_kernel_by_kernel() -> None:
    assert registers_of(_LOG) == {"one": 40, "two": 8}
