"""Runs a short piece of Python in a process of its own, and tells how it ended, whatever it did."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

import tune_farm
from tune_farm.tuner.children.mark import MARKER, processes_of

#: Where this package was imported from. First on the path for one import, so that the child runs
#: this code and no other installed copy; then gone: a checkout's other folders stay unknown.
_ROOT = str(Path(tune_farm.__file__).resolve().parent.parent)
_PROBE = (
    "import sys; sys.path.insert(0, sys.argv[1]); import tune_farm; del sys.path[0]; "
    "from tune_farm.client.doctor.probes import main; main(sys.argv[2])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How it ended."""

    passed: bool
    detail: str  # its last line of output, or the cause of its end


def try_probe(name: str, *, timeout_seconds: float) -> Trial:
    """Run a probe of `probes.PROBES`."""
    return try_out(_PROBE, _ROOT, name, timeout_seconds=timeout_seconds)


def try_out(code: str, *arguments: str, timeout_seconds: float) -> Trial:
    """Run `code` with `arguments`; nothing that it starts outlives the call."""
    mark = f"doctor-{uuid.uuid4().hex[:12]}"
    # In a folder of its own: a `ray.py` or `onnx/` in the user's would be imported instead.
    with tempfile.TemporaryDirectory(prefix="tune-farm-") as folder:
        process = subprocess.Popen(  # noqa: S603 - an argument list, and no shell
            [sys.executable, "-c", code, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, MARKER: mark, "RAY_USAGE_STATS_ENABLED": "0"},
            start_new_session=True,
            text=True,
            errors="replace",
        )
        try:
            output, complaint = process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            return Trial(passed=False, detail=f"no answer in {timeout_seconds:.0f} s")
        finally:
            _end(process, mark)
    if process.returncode == 0:
        return Trial(passed=True, detail=_last_line(output))
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        return Trial(passed=False, detail=f"the process died of {name}")
    return Trial(passed=False, detail=_last_line(complaint) or f"exit {process.returncode}")


def _end(process: subprocess.Popen[str], mark: str) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    # Ray's daemons lead sessions of their own; all of them inherited the mark.
    for other in processes_of(mark):
        with suppress(psutil.Error):  # it ended meanwhile
            other.kill()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait()


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
