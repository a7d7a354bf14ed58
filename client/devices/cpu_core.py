"""One core as the predictor's laws see it: vectors, caches, clock, as this machine tells them."""

from __future__ import annotations

import re
from pathlib import Path

from tune_farm.tuner.predictor.machine import Cpu

_KIB, _MIB = 1 << 10, 1 << 20
#: Where the kernel tells nothing (some containers and ARM boards): small caches, so that a law
#: errs on the side of small tiles.
_USUAL_CACHES = (32 * _KIB, 512 * _KIB, 4 * _MIB)
_USUAL_HERTZ = 2.5e9
#: (flag, bytes of a vector, vector registers), widest first.
_VECTORS = (("avx512f", 64, 32), ("avx", 32, 16), ("asimd", 16, 32), ("sse2", 16, 16))
#: Instructions that a server core holds in flight: 224 (2015) to 512.
_WINDOW = 224
#: Bytes a cycle from the next level outwards, by cache level: orders of magnitude that hold for
#: server cores of the last ten years (vendors' optimization manuals); what they are off by is
#: learned with the rest.
_REFILL_BYTES_PER_CYCLE = (32.0, 12.0, 4.0)


def cpu_core(granted: int, root: Path = Path("/")) -> Cpu:
    """Describe a share of this machine's CPU.

    Args:
        granted: cores of the share.
        root: where `sys/` and `proc/` lie; another than "/" only in tests.
    """
    info = _read(root / "proc/cpuinfo")
    flags = set(re.findall(r"[\w.]+", _field(info, ("flags", "Features"))))
    vector_bytes, registers = next(
        ((size, count) for flag, size, count in _VECTORS if flag in flags), (16, 16)
    )
    caches = _caches(root)
    return Cpu(
        cores=granted,
        clock_hertz=_clock(info, root),
        vector_bytes=vector_bytes,
        vector_registers=registers,
        fused_multiply_adds=2,
        loads=2,
        latency_cycles=4.0,
        forward_cycles=14.0,
        window=_WINDOW,
        cache_bytes=tuple(size for size, _ in caches),
        cache_sets=tuple(sets for _, sets in caches),
        refill_bytes_per_cycle=_REFILL_BYTES_PER_CYCLE,
    )


def _caches(root: Path) -> tuple[tuple[int, int], ...]:
    """Bytes and sets of the data caches of the first core, by level."""
    found: dict[int, tuple[int, int]] = {}
    for folder in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind = _read(folder / "level").strip(), _read(folder / "type").strip()
        size = re.fullmatch(r"(\d+)([KM])", _read(folder / "size").strip())
        if level.isdecimal() and kind != "Instruction" and size:
            capacity = int(size.group(1)) * (_KIB if size.group(2) == "K" else _MIB)
            sets = _read(folder / "number_of_sets").strip()
            found[int(level)] = capacity, int(sets) if sets.isdecimal() else _usual_sets(capacity)
    return tuple(
        found.get(level, (usual, _usual_sets(usual)))
        for level, usual in enumerate(_USUAL_CACHES, start=1)
    )


def _usual_sets(capacity: int) -> int:
    """Of eight ways with lines of 64 bytes."""
    return capacity // (8 * 64)


def _clock(info: str, root: Path) -> float:
    """Hertz: the highest that the kernel tells, or the current one."""
    khz = _read(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").strip()
    if khz.isdecimal():
        return float(khz) * 1e3
    mhz = re.match(r"[\d.]+", _field(info, ("cpu MHz",)))
    return float(mhz.group()) * 1e6 if mhz else _USUAL_HERTZ


def _field(info: str, names: tuple[str, ...]) -> str:
    for line in info.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in names:
            return value.strip()
    return ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
