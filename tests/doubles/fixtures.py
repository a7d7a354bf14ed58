"""A machine of doubles: the driver's libraries, the MPS control command, and what they say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.doubles.nvml.machine import Card, write_machine

_DOUBLES = Path(__file__).parent
_MPS = "nvidia-cuda-mps-control"
_LIBRARIES = {"libnvidia-ml.so.1": "nvml", "libcuda.so.1": "cuda"}
_ROOT = _DOUBLES.parent.parent


@dataclass(kw_only=True)
class GpuMachine:
    """What programs meet there; a test says more with `cards` and `mps`."""

    folder: Path
    libraries: Path
    environment: dict[str, str] = field(default_factory=dict)

    def cards(self, *cards: Card, **more: Any) -> None:
        """Say which GPUs there are."""
        write_machine(self.folder / "machine", *cards, **more)

    def mps(self, **knobs: object) -> None:
        """Say how the MPS daemon behaves from now on."""
        (self.folder / "mps.json").write_text(json.dumps(knobs))

    def mps_processes(self) -> list[psutil.Process]:
        """Daemons and servers of this machine that are there."""
        found = []
        for process in psutil.process_iter():
            try:
                is_ours = process.environ().get("MPS_DOUBLE") == self.environment["MPS_DOUBLE"]
                if is_ours and next(iter(process.cmdline()), "").startswith("nvidia-cuda-mps"):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def start(self, code: str, *arguments: str) -> subprocess.Popen[bytes]:
        """A piece of Python, running there."""
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            env={**self.environment, "PYTHONPATH": str(_ROOT)},
        )

    def python(self, code: str, *arguments: str, **environment: str) -> str:
        """What a piece of Python prints there."""
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env={**self.environment, "PYTHONPATH": str(_ROOT), **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def driver_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    compiler = next(filter(None, map(shutil.which, ("gcc", "cc", "clang"))))
    options = ["-Wall", "-Wextra", "-Wno-format-truncation", "-shared", "-fPIC"]
    for library, source in _LIBRARIES.items():
        path = _DOUBLES / source / "driver.c"
        command = [compiler, *options, "-o", str(folder / library), str(path)]
        subprocess.run(command, check=True)
    return folder


@pytest.fixture
def gpu_machine(
    driver_libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GpuMachine]:
    """One GPU of 132 SMs, and an MPS that behaves; this process's PATH and variables lead there."""
    commands = tmp_path / "bin"
    commands.mkdir()
    shutil.copy(_DOUBLES / "mps" / _MPS, commands / _MPS)
    libraries = [str(driver_libraries), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    variables = {
        "LD_LIBRARY_PATH": ":".join(libraries),
        "NVML_DOUBLE": str(tmp_path / "machine"),
        "MPS_DOUBLE": str(tmp_path / "mps.json"),
        "PATH": f"{commands}:{os.environ['PATH']}",
    }
    for name in [name for name in os.environ if name.startswith(("CUDA_", "SLURM_"))]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    machine = GpuMachine(folder=tmp_path, libraries=driver_libraries, environment=dict(os.environ))
    machine.cards(Card(uuid="GPU-11111111-1111-1111-1111-111111111111"))
    yield machine
    for process in psutil.process_iter():
        try:
            is_ours = process.environ().get("MPS_DOUBLE") == variables["MPS_DOUBLE"]
            if is_ours and process.pid != os.getpid():
                process.kill()
        except psutil.Error:
            continue
