"""Times builds of a model against each other: a process for each, one running at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.report import ROOT

#: Thread pools of the side that has just run go to sleep before the other one begins.
PAUSE_SECONDS = 0.3


def side_command(side: str, model: str, out: Path) -> list[str]:
    """What holds one side's build of a model."""
    return [sys.executable, "-m", "benchmarks.latency", side, model, str(out)]


@contextmanager
def holding(command: Sequence[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process that holds one build, ready to run it."""
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    try:
        answer(process)
        yield process
    finally:
        process.kill()
        process.wait()


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line that a process says."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    raise SystemExit(f"{process.args!r} ended with {process.wait()}")


def time_in_turn(processes: Sequence[subprocess.Popen[str]], rounds: int) -> list[list[float]]:
    """Seconds of each run of each process; one runs at a time, and they take turns."""
    found: list[list[float]] = [[] for _ in processes]
    for _ in range(rounds):
        for place, process in enumerate(processes):
            assert process.stdin is not None
            time.sleep(PAUSE_SECONDS)
            process.stdin.write("\n")
            process.stdin.flush()
            found[place].append(answer(process)["seconds"])
    return found
