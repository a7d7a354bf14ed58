"""The check's outcome: tables for people, one JSON document for machines; needs no package."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.bundle import Bundle
from benchmarks.gpu.conduct import Outcome
from benchmarks.gpu.lab import Lab

CLAIM = "a share of this GPU is in force, and what it does to timings is what tune-farm assumes"
_NVIDIA_SMI = (
    "driver_version,name,uuid,compute_mode,mig.mode.current,persistence_mode,clocks.sm,clocks.mem,"
    "clocks.max.sm,temperature.gpu,power.draw,ecc.mode.current,clocks_event_reasons.active"
)
#: Rows shown of a part on the terminal; all are in the file.
_MOST_ROWS = 14


def document_of(
    lab: Lab, outcomes: Sequence[Outcome], *, quick: bool, bundle: Bundle | None, seconds: float
) -> dict[str, Any]:
    """All that was found, in the form that this project's benchmarks share."""
    mark = "SIMULATED: " if lab.is_simulated else ""
    results: dict[str, float] = {"wall_seconds": seconds}
    for state in ("done", "skipped", "failed"):
        results[f"parts_{state}"] = sum(each.state == state for each in outcomes)
    for each in outcomes:
        found = each.findings.results if each.findings else {}
        results |= {f"{each.part.name}_{name}": float(value) for name, value in found.items()}
    return {
        "claim": mark + CLAIM,
        "quick": quick,
        "simulated": lab.is_simulated,
        "results": results,
        "rows": [_row(each, mark) for each in outcomes],
        "parts": {
            each.part.name: {
                "asks": each.part.asks,
                "state": each.state,
                "simulated": lab.is_simulated,
                "seconds": each.seconds,
                "reason": each.reason,
                "results": dict(each.findings.results) if each.findings else {},
                "rows": [dict(row) for row in each.findings.rows] if each.findings else [],
                "notes": list(each.findings.notes) if each.findings else [],
            }
            for each in outcomes
        },
        "environment": environment(lab, bundle),
    }


def write_document(document: Mapping[str, Any], path: Path) -> None:
    """Write it whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(document, indent=1, allow_nan=False, default=_plain) + "\n")
    part.replace(path)


def show(outcome: Outcome, *, is_simulated: bool) -> None:
    """One part for people."""
    mark = "SIMULATED: " if is_simulated else ""
    head = f"{mark}{outcome.part.name}: {outcome.part.asks}?"
    print(f"\n{head} [{outcome.state}, {outcome.seconds:.1f} s]")
    if outcome.findings is None:
        print(f"  {outcome.reason}")
        return
    print(f"  {outcome.findings.says}")
    for note in outcome.findings.notes[:_MOST_ROWS]:
        print(f"  - {note}")
    rows = outcome.findings.rows
    for line in table(rows[:_MOST_ROWS]):
        print(f"  {line}")
    if len(rows) > _MOST_ROWS:
        print(f"  … {len(rows) - _MOST_ROWS} rows more in the file")


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows as lines with aligned columns."""
    if not rows:
        return []
    cells = [[str(name) for name in rows[0]], *([_shown(v) for v in row.values()] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def environment(lab: Lab, bundle: Bundle | None) -> dict[str, Any]:
    """What the numbers hold for."""
    return {
        "gpu": asdict(lab.device),
        "nvidia_smi": None if lab.is_simulated else nvidia_smi(),
        "driver": None if lab.is_simulated else _driver(),
        "bundle": dict(bundle.made) if bundle else None,
        "cores": len(os.sched_getaffinity(0)),
        "user": os.getuid(),
        "platform": platform.platform(),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "mps_binary": shutil.which("nvidia-cuda-mps-control"),
        "time": _now(),
    }


def nvidia_smi() -> dict[str, str] | None:
    """State of the card, which is read and never changed; None where it can't be asked."""
    command = ["nvidia-smi", f"--query-gpu={_NVIDIA_SMI}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=15, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return None
    values = [value.strip() for value in lines[0].split(",")]
    return dict(zip(_NVIDIA_SMI.split(","), values, strict=False))


def _driver() -> str | None:
    try:
        return Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except (OSError, IndexError):
        return None


def _now() -> str:
    from datetime import datetime, timezone

    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _row(outcome: Outcome, mark: str) -> dict[str, Any]:
    says = outcome.findings.says if outcome.findings else outcome.reason
    return {
        "part": outcome.part.name,
        "state": outcome.state,
        "seconds": round(outcome.seconds, 2),
        "says": mark + says,
    }


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"not JSON: {value!r}")


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1e5 else f"{value:.0f}"
    text = str(value)
    return text if len(text) <= 60 else text[:59] + "…"
