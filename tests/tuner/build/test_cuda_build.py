"""CUDA candidates become libraries with a cubin inside; twins, spills and the impossible do not."""

from __future__ import annotations

import functools
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from benchmarks.h100 import H100, H100_TARGET_JSON
from tests.tuner import cuda_operators, operators
from tests.tuner.cuda_operators import cuda_task
from tune_farm.tuner.build import cuda_build, cuda_compile
from tune_farm.tuner.build.cuda_build import PrunedError, build_cuda, schedule_by_default
from tune_farm.tuner.build.cuda_compile import (
    Compiled,
    CudaCompileError,
    compile_cuda,
    include_folder,
    lean_source,
    missing_compiler,
)
from tune_farm.tuner.build.cuda_usage import usage_of
from tune_farm.tuner.build.pool import BuildOptions, BuildPool
from tune_farm.tuner.interfaces import Artifact, BuildFailure
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.predictor.gpu_laws import GpuLaws, gpu_tiles
from tune_farm.tuner.predictor.gpu_limits import gpu_fits
from tune_farm.tuner.space.design import DesignSpace
from tune_farm.tuner.space.intrinsics import load_intrinsics
from tune_farm.tuner.space.traces import replay
from tune_farm.tuner.types import Candidate, Fault, Task

needs_compiler = pytest.mark.skipif(
    missing_compiler() is not None, reason=missing_compiler() or "there is one"
)
SOURCE = """
#ifdef __CUDACC_RTC__
  #include <cuda/std/cstdint>
#else
  #include <cstdint>
#endif
extern "C" __global__ void __launch_bounds__(64) main_kernel(float* __restrict__ a) {
  __shared__ float tile[64];
  int64_t place = threadIdx.x;
  tile[place] = a[place];
  __syncthreads();
  a[place] = tile[63 - place] * 2.0f;
}
"""
CORE = min(os.sched_getaffinity(0))


@functools.cache
def task() -> Task:
    return cuda_task(operators.matmul(64, 64, 64))


def target() -> Any:
    return tvm.target.Target(json.loads(H100_TARGET_JSON))


def candidates(task: Task, count: int, *, plot: int = 0) -> list[Candidate]:
    """Schedules of one sketch that pass the limits."""
    space = DesignSpace(task, seed=1)
    chosen = space.plots[plot]
    assert chosen.kernels is not None
    genes = chosen.sketch.draw(4000, np.random.default_rng(1))
    genes = genes[gpu_fits(chosen.kernels, chosen.sketch, genes, H100)]
    found = (space.realize(plot, row) for row in genes)
    return [each for each, _ in zip(filter(None, found), range(count), strict=False)]


def scheduled(task: Task, candidate: Candidate) -> Any:
    return replay(tvm.ir.load_json(task.module_json), candidate.trace_json).mod


def test_nothing_is_included_that_declarations_can_replace() -> None:
    assert "#include" not in lean_source(SOURCE)
    assert "typedef long long int64_t;" in lean_source(SOURCE)
    assert "main_kernel" in lean_source(SOURCE)


@needs_compiler
def test_what_tvm_generates_compiles_without_headers(tmp_path: Path) -> None:
    seen: list[str] = []

    def is_new(code: str) -> None:
        seen.append(code)

    (candidate,) = candidates(task(), 1)
    library = tmp_path / "kernel.so"

    build_cuda(scheduled(task(), candidate), target(), str(library), is_new=is_new)

    assert len(seen) == 1
    assert re.fullmatch(r"[0-9a-f]{64}", seen[0])
    assert b"\x7fELF" in library.read_bytes()[4:]  # the cubin in the library
    assert b"__launch_bounds__" not in library.read_bytes()  # and no source to compile


@pytest.mark.skipif(cuda_compile._nvrtc() is None, reason="no NVRTC: tune-farm[cuda]")
def test_nvrtc_compiles() -> None:
    check(cuda_compile._by_nvrtc(SOURCE, "sm_90a"))


@pytest.mark.slow
@pytest.mark.skipif(cuda_compile._nvcc() is None, reason="no nvcc on PATH")
def test_nvcc_stands_in() -> None:
    check(cuda_compile._by_nvcc(SOURCE, "sm_90a"))


def check(compiled: Compiled) -> None:
    (usage,) = usage_of(SOURCE, compiled.log, {})
    assert compiled.cubin.startswith(b"\x7fELF")
    assert usage.static_shared_bytes == 256
    assert usage.threads == 64
    assert 1 <= usage.registers <= 64


@needs_compiler
def test_a_wrong_source_is_refused_in_the_compilers_words() -> None:
    with pytest.raises(CudaCompileError, match="nonsense"):
        compile_cuda(SOURCE.replace("2.0f", "nonsense"), "sm_90a")


def test_the_same_code_is_not_compiled_again(tmp_path: Path) -> None:
    (candidate,) = candidates(task(), 1)
    module = scheduled(task(), candidate)

    with pytest.raises(PrunedError, match="candidate abc"):
        build_cuda(module, target(), str(tmp_path / "a.so"), is_new=lambda _: "abc")

    assert list(tmp_path.iterdir()) == []


@needs_compiler
def test_a_kernel_that_a_device_cannot_launch_is_pruned(tmp_path: Path) -> None:
    (candidate,) = candidates(task(), 1)
    small = {**json.loads(H100_TARGET_JSON), "registers_per_block": 256}

    with pytest.raises(PrunedError, match="can't be launched"):
        build_cuda(
            scheduled(task(), candidate),
            tvm.target.Target(small),
            str(tmp_path / "a.so"),
            is_new=lambda _: None,
        )


@needs_compiler
@pytest.mark.slow
def test_the_pool_builds_each_code_once(tmp_path: Path) -> None:
    (candidate,) = candidates(task(), 1)
    # Two schedules that differ in a number that ends as the same code.
    instructions, decided = json.loads(candidate.trace_json)
    twin = replace(candidate, trace_json=json.dumps([instructions, decided]))
    pool = BuildPool(
        cores=(CORE,),
        scratch=tmp_path,
        options=BuildOptions(timeout_seconds=60.0),
        name="slot",
        should_stop=lambda: False,
    )
    try:
        pool.select(task())
        (baseline,) = pool.build([untuned(task())])
        first, second = pool.build([candidate, twin])
        (again,) = pool.build([candidate])
    finally:
        pool.close()

    assert candidate.id != twin.id
    assert isinstance(first, Artifact)
    assert isinstance(second, BuildFailure)
    assert second.failure.fault is Fault.PRUNED_STATIC
    assert candidate.id in second.failure.detail
    assert isinstance(again, Artifact)  # another attempt at what it owns
    assert isinstance(baseline, Artifact)


@pytest.mark.parametrize("function", cuda_operators.ALL, ids=lambda each: each.__name__)
def test_an_untuned_operator_is_bound_to_threads(function: Any) -> None:
    module = tvm.ir.load_json(cuda_task(function()).module_json)
    before = str(module)

    text = str(schedule_by_default(module, target()))

    assert "blockIdx.x" in text
    assert "threadIdx.x" in text
    assert str(module) == before


@needs_compiler
@pytest.mark.skipif(include_folder() is None, reason="no headers of a CUDA toolkit")
@pytest.mark.parametrize(("dtype", "architecture"), [("float16", "sm_80"), ("bfloat16", "sm_90a")])
def test_half_precision_products_run_on_tensor_cores(
    dtype: str, architecture: str, tmp_path: Path
) -> None:
    attributes = {**json.loads(H100_TARGET_JSON), "arch": architecture}
    half = replace(
        cuda_task(cuda_operators.half_product(dtype)), target_json=json.dumps(attributes)
    )
    space = DesignSpace(half, seed=1)
    index = next(place for place, plot in enumerate(space.plots) if plot.tensor is not None)
    plot = space.plots[index]
    genes = plot.sketch.draw(500, np.random.default_rng(0))
    genes = genes[GpuLaws(H100).fits(plot, genes)]
    cheap = genes[(gpu_tiles(plot, genes) or ())[0].code.argmin()]
    candidate = space.realize(index, cheap)
    assert candidate is not None
    seen: list[Compiled] = []

    def compiled(source: str, arch: str) -> Compiled:
        seen.append(compile_cuda(source, arch))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_build, "compile_cuda", compiled)
        build_cuda(
            scheduled(half, candidate),
            tvm.target.Target(half.target_json),
            str(tmp_path / "product.so"),
            is_new=lambda _: None,
        )

    assert (tmp_path / "product.so").stat().st_size > len(seen[0].cubin) > 0
    assert matrix_instructions(seen[0].cubin) > 0


def matrix_instructions(cubin: bytes) -> int:
    """HMMA instructions of 128 bits, whose opcode is their lowest 12 bits, since Volta."""
    # Sections of code start at multiples of 128 bytes.
    words = np.frombuffer(cubin[: len(cubin) // 16 * 16], dtype="<u8")[::2]
    return int(((words & 0xFFF) == _HMMA).sum())


_HMMA = 0x23C


@needs_compiler
@pytest.mark.skipif(include_folder() is None, reason="no headers of a CUDA toolkit")
def test_untuned_half_precision_products_build(tmp_path: Path) -> None:
    half = cuda_task(cuda_operators.half_product())
    load_intrinsics(target())  # TVM's default schedule takes tensor cores, and finds what it needs

    module = schedule_by_default(tvm.ir.load_json(half.module_json), target())
    build_cuda(module, target(), str(tmp_path / "untuned.so"), is_new=None)

    assert (tmp_path / "untuned.so").exists()
