"""The CPU as a device: the cores that this process may use, and what kind they are."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from pathlib import Path

import psutil

from tune_farm.tuner.types import Device, DeviceClass

_GIB = 1 << 30
#: cgroup v1 writes "no limit" as the largest page-aligned number, which is no amount of memory.
_NO_MEMORY_LIMIT = 1 << 60


def usable_cores(root: Path = Path("/")) -> tuple[int, ...]:
    """The cores that this process may use, lowest first.

    A cgroup quota below the affinity mask shortens the list: four cores under a quota of two run at
    half speed, and nothing timed on them means anything.

    Args:
        root: where `sys/` and `proc/` lie; another than "/" only in tests.
    """
    cores = sorted(os.sched_getaffinity(0))
    quota = _cpu_quota(root)
    return tuple(cores if quota is None else cores[: max(1, int(quota))])


def cpu_device(root: Path = Path("/")) -> Device:
    """This machine's CPU, as far as this process may use it; imports TVM (seconds)."""
    return Device(
        device_class=DeviceClass(
            kind="cpu",
            name=cpu_name(root),
            total=len(usable_cores(root)),
            memory_bytes=usable_memory_bytes(root),
            architecture=system_mcpu(),
        ),
        uuid=_machine_uuid(root),
        host=socket.gethostname(),
        driver=f"{platform.system()} {platform.release()}",
    )


def cpu_name(root: Path = Path("/")) -> str:
    """The marketing name, or the architecture where the kernel tells none (most ARM machines)."""
    for line in _read(root / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return " ".join(value.split())
    return platform.machine()


def usable_memory_bytes(root: Path = Path("/")) -> int:
    """Memory that this process may use, rounded to whole GiB.

    The kernel keeps a part that varies with its version: unrounded, two equal machines would count
    as two classes and share no record.
    """
    limits = [psutil.virtual_memory().total]
    for folder in _cgroup_folders(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _read(folder / name).strip()
            if text.isdecimal() and int(text) < _NO_MEMORY_LIMIT:
                limits.append(int(text))
    return max(1, round(min(limits) / _GIB)) * _GIB


def system_mcpu() -> str:
    """The name by which LLVM knows this CPU ("znver3"); imports TVM (seconds)."""
    from tvm.target import codegen

    return str(codegen.llvm_get_system_cpu())


def _cpu_quota(root: Path) -> float | None:
    """The smallest quota from our cgroup up to the root, in cores; None if there is none."""
    quotas = []
    for folder in _cgroup_folders(root, "cpu"):
        quota, _, period = _read(folder / "cpu.max").strip().partition(" ")  # v2: "max 100000"
        if not period:
            quota = _read(folder / "cpu.cfs_quota_us").strip()  # v1: -1 = none
            period = _read(folder / "cpu.cfs_period_us").strip()
        if quota.isdecimal() and period.isdecimal() and int(quota) and int(period):
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def _cgroup_folders(root: Path, controller: str) -> list[Path]:
    """The folders that may limit us, ours first; a container sees its own cgroup as the root."""
    folders: list[Path] = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        mount = root / "sys/fs/cgroup"
        if controllers and controller not in controllers.split(","):
            continue
        base = mount / controller if controllers else mount
        inner = base / path.lstrip("/")
        folders += [inner, *(above for above in inner.parents if above.is_relative_to(base))]
    return folders


def _machine_uuid(root: Path) -> str:
    identity = _read(root / "etc/machine-id").strip() or socket.gethostname()
    # Hashed: the machine id itself is meant to stay confidential (man 5 machine-id).
    return f"CPU-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
