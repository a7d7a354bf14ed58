from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from tune_farm.client.devices.cpu import (
    cpu_device,
    cpu_name,
    usable_cores,
    usable_memory_bytes,
)

GIB = 1 << 30


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {7, 1, 2, 3, 4, 5, 6, 0})


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({}, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "300000 100000\n"}, 3),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/job\n0::/\n",
                "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
    ],
    ids=["no-cgroup", "v2-max", "v2-quota", "v2-half-a-core", "v2-parent", "v1"],
)
def test_a_quota_shortens_the_list_of_cores(
    tmp_path: Path, files: dict[str, str], count: int
) -> None:
    assert usable_cores(write(tmp_path, files)) == tuple(range(count))


def test_the_name_is_the_kernels(tmp_path: Path) -> None:
    root = write(tmp_path, {"proc/cpuinfo": "processor : 0\nmodel name\t: AMD  EPYC 7B13\n"})

    assert cpu_name(root) == "AMD EPYC 7B13"


def test_a_machine_without_a_model_name_is_its_architecture(tmp_path: Path) -> None:
    assert cpu_name(write(tmp_path, {"proc/cpuinfo": "processor : 0\n"})) == os.uname().machine


def test_memory_is_whole_gib_and_respects_the_cgroup(tmp_path: Path) -> None:
    assert usable_memory_bytes(tmp_path) % GIB == 0
    assert abs(usable_memory_bytes(tmp_path) - psutil.virtual_memory().total) <= GIB

    limited = write(
        tmp_path,
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{GIB - 5}\n"},
    )
    assert usable_memory_bytes(limited) == GIB


def test_the_cpu_is_a_device() -> None:
    device = cpu_device()

    assert device.device_class.kind == "cpu"
    assert device.device_class.total == len(usable_cores()) >= 1
    assert device.device_class.architecture not in ("", "None")
    assert device.uuid.startswith("CPU-")
    assert device == cpu_device()
