"""What every benchmark ends with: one table for people, one JSON file for machines."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

import tune_farm

ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "ray", "numpy", "xgboost", "onnx")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of one benchmark."""

    claim: str  # one sentence, with the number that is aimed at
    quick: bool
    simulated: bool
    results: Mapping[str, float]  # by the names that other tools look for
    rows: Sequence[Mapping[str, Any]]  # the table, equal keys in each row
    notes: Sequence[str] = ()  # what was counted, and what was not
    replayed: bool = False  # simulated from recorded measurements
    details: Mapping[str, Any] = field(default_factory=dict)  # in the file, not in the table

    def __post_init__(self) -> None:
        assert self.results, "a benchmark without a result"
        assert all(row.keys() == self.rows[0].keys() for row in self.rows), self.rows


def print_report(report: Report, console: Console | None = None) -> None:
    """Show the table, the results and the notes."""
    # In a log file the table keeps its columns; a terminal has a width of its own.
    console = console or Console(width=None if sys.stdout.isatty() else 160)
    title = report.claim + (" (quick)" if report.quick else "")
    mark = "REPLAYED: " if report.replayed else "SIMULATED: " if report.simulated else ""
    table = Table(title=mark + title)
    for column in report.rows[0] if report.rows else ():
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in report.rows:
        table.add_row(*(_shown(value) for value in row.values()))
    console.print(table)
    for name, value in report.results.items():
        console.print(f"{mark}{name} {_shown(value)}", highlight=False)
    for note in report.notes:
        console.print(f"- {note}", highlight=False)


def write_report(report: Report, path: Path) -> None:
    """Write the report with this machine's description, whole or not at all.

    Raises:
        ValueError: a number is not finite, and so not JSON.
    """
    # The results stand at the top, too, for those who look for one name.
    document = {**report.results, **asdict(report), "environment": environment()}
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    part = path.with_name(f"{path.name}.part")
    part.write_text(text)
    part.replace(path)


def environment() -> dict[str, Any]:
    """What the numbers hold for."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average_1_minute": os.getloadavg()[0],
        "platform": platform.platform(),
        "python": sys.version.split()[0],
        "tune_farm": tune_farm.__version__,
        "packages": {name: _version(name) for name in _PACKAGES},
        "git_commit": _git_commit(),
    }


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return " ".join(value.split())
    return platform.machine()


def _git_commit() -> str | None:
    """The commit of this checkout, marked if files differ from it; None outside a checkout."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _shown(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, float):
        return "-" if value is None else str(value)
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
