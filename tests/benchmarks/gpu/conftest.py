"""A machine of doubles whose CUDA driver launches kernels, as far as they do anything."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.gpu.bundle import Bundle
from tests.doubles.fixtures import GpuMachine

_SOURCE = Path(__file__).parents[2] / "doubles" / "cuda" / "launch.c"


@pytest.fixture(scope="session")
def launching_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("launching")
    compiler = next(filter(None, map(shutil.which, ("gcc", "cc", "clang"))))
    options = ["-Wall", "-Wextra", "-Wno-format-truncation", "-shared", "-fPIC"]
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, *options, "-o", str(library), str(_SOURCE)], check=True)
    return folder


@pytest.fixture
def launching_machine(
    gpu_machine: GpuMachine, launching_driver: Path, monkeypatch: pytest.MonkeyPatch
) -> GpuMachine:
    before = gpu_machine.environment["LD_LIBRARY_PATH"]
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{launching_driver}:{before}")
    gpu_machine.environment["LD_LIBRARY_PATH"] = f"{launching_driver}:{before}"
    return gpu_machine


@pytest.fixture
def kernels(tmp_path: Path) -> Bundle:
    """A bundle whose kernels the double knows by name; nothing else is in it."""
    (tmp_path / "check.sm_90.cubin").write_bytes(b"known by name")
    return Bundle(
        folder=tmp_path,
        made={},
        kernels={"sm_90": "check.sm_90.cubin"},
        registers={},
        operators=(),
    )
