"""The assembler's report is read; what spills or can't be launched is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tune_farm.tuner.build.cuda_usage import BlockLimits, usage_of, why_pruned
from tune_farm.tuner.types import KernelUsage

SOURCE = """
extern "C" __global__ void __launch_bounds__(224) main_kernel(float* __restrict__ a);
extern "C" __global__ void __launch_bounds__(224) main_kernel(float* __restrict__ a) {}
extern "C" __global__ void __launch_bounds__(64) main_kernel_1(float* __restrict__ a) {}
"""
LOG = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'main_kernel_1' for 'sm_90a'
ptxas info    : Function properties for main_kernel_1
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 2176 bytes smem
ptxas info    : Compiling entry function 'main_kernel' for 'sm_90a'
ptxas info    : Function properties for main_kernel
ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
ptxas info    : Compile time = 55.247 ms
"""
LIMITS = BlockLimits(threads=1024, registers=65536, shared_bytes=227 << 10)
GOOD = KernelUsage(
    name="main_kernel",
    threads=256,
    registers=128,
    spilled_bytes=0,
    stack_bytes=0,
    static_shared_bytes=1024,
    dynamic_shared_bytes=64 << 10,
)


def test_the_report_is_read() -> None:
    second, first = usage_of(SOURCE, LOG, {"main_kernel": 4096})

    assert (second.name, second.threads, second.registers) == ("main_kernel_1", 64, 40)
    assert (second.static_shared_bytes, second.shared_bytes) == (2176, 2176)
    assert (first.threads, first.registers, first.spilled_bytes) == (224, 255, 20)
    assert (first.stack_bytes, first.shared_bytes) == (16, 4096)


@pytest.mark.parametrize("log", ["", "Compiling entry function 'main_kernel' for 'sm_90a'\n"])
def test_a_report_in_another_form_is_refused(log: str) -> None:
    with pytest.raises(ValueError, match="report"):
        usage_of(SOURCE, log, {})


def test_a_good_kernel_is_measured() -> None:
    assert why_pruned([GOOD], LIMITS) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"spilled_bytes": 8}, "spills 8 bytes"),
        ({"threads": 1025, "registers": 8}, "1025 threads"),
        ({"registers": 255, "threads": 512}, "registers a block"),
        ({"dynamic_shared_bytes": 227 << 10}, "shared memory"),
    ],
)
def test_what_cannot_win_is_named(change: dict[str, int], words: str) -> None:
    reason = why_pruned([GOOD, replace(GOOD, name="main_kernel_1", **change)], LIMITS)

    assert reason is not None
    assert "main_kernel_1" in reason
    assert words in reason
