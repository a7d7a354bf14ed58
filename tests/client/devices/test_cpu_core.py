"""A core is described by what the kernel tells; where it tells nothing, conservatively."""

from __future__ import annotations

from pathlib import Path

import pytest

from tune_farm.client.devices.cpu_core import cpu_core

X86 = """processor\t: 0
cpu MHz\t\t: 2445.404
flags\t\t: fpu sse sse2 avx avx2 fma
"""
ARM = """processor\t: 0
Features\t: fp asimd evtstrm
"""


def machine(root: Path, info: str, caches: list[tuple[int, str, str]]) -> Path:
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(info)
    for index, (level, kind, size) in enumerate(caches):
        folder = root / f"sys/devices/system/cpu/cpu0/cache/index{index}"
        folder.mkdir(parents=True)
        for name, text in (("level", str(level)), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    return root


def test_what_the_kernel_tells(tmp_path: Path) -> None:
    caches = [
        (1, "Data", "48K"),
        (1, "Instruction", "32K"),
        (2, "Unified", "2048K"),
        (3, "Unified", "105M"),
    ]

    root = machine(tmp_path, X86, caches)
    (root / "sys/devices/system/cpu/cpu0/cache/index0/number_of_sets").write_text("64\n")

    core = cpu_core(3, root)

    assert core.cores == 3
    assert core.cache_bytes == (48 << 10, 2 << 20, 105 << 20)
    assert core.cache_sets == (64, 4096, 215040)  # the first as told, the others of eight ways
    assert (core.vector_bytes, core.vector_registers) == (32, 16)
    assert core.clock_hertz == pytest.approx(2.445404e9)


def test_the_highest_clock_counts_where_it_is_known(tmp_path: Path) -> None:
    root = machine(tmp_path, X86, [])
    folder = root / "sys/devices/system/cpu/cpu0/cpufreq"
    folder.mkdir(parents=True)
    (folder / "cpuinfo_max_freq").write_text("3800000\n")

    assert cpu_core(1, root).clock_hertz == 3.8e9


@pytest.mark.parametrize(
    ("info", "vector"),
    [
        (X86.replace("avx2", "avx2 avx512f"), (64, 32)),
        (X86.replace("avx avx2", ""), (16, 16)),
        (ARM, (16, 32)),
        ("", (16, 16)),
    ],
    ids=["avx512", "sse", "neon", "nothing"],
)
def test_vectors_by_the_flags(tmp_path: Path, info: str, vector: tuple[int, int]) -> None:
    core = cpu_core(1, machine(tmp_path, info, []))

    assert (core.vector_bytes, core.vector_registers) == vector
    assert len(core.cache_bytes) == len(core.refill_bytes_per_cycle) == 3
    assert core.clock_hertz > 1e9


def test_this_machine_is_described() -> None:
    core = cpu_core(1)

    assert list(core.cache_bytes) == sorted(core.cache_bytes)
