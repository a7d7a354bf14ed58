"""Runs a program to its end while watching how much memory it and all it starts take."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_SAMPLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A program that has ended."""

    timed_out: bool  # it was ended; what it wrote until then is there
    stdout: str
    stderr: str
    started: float  # Unix time
    seconds: float
    peak_memory_bytes: int  # of the whole tree: proportional set sizes, so shared pages count once


class ProgramFailedError(Exception):
    """The program ended by itself with another code than 0."""


def watch(
    command: Sequence[str], *, environment: Mapping[str, str], timeout_seconds: float
) -> Watched:
    """Run a program in a scratch folder, up to a limit; ends its whole process group in any case.

    Raises:
        ProgramFailedError: it failed; the message has the end of its stderr.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        started, begun = time.time(), time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=folder,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        try:
            peak = _peak_until_end(process, begun + timeout_seconds)
            timed_out = process.poll() is None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        seconds = time.monotonic() - begun
        out.seek(0)
        err.seek(0)
        stderr = err.read()
        if process.returncode != 0 and not timed_out:
            tail = "\n".join(stderr.splitlines()[-15:])
            raise ProgramFailedError(f"{command[:4]} ended with {process.returncode}:\n{tail}")
        return Watched(
            timed_out=timed_out,
            stdout=out.read(),
            stderr=stderr,
            started=started,
            seconds=seconds,
            peak_memory_bytes=peak,
        )


def _peak_until_end(process: subprocess.Popen[bytes], deadline: float) -> int:
    peak = 0
    while process.poll() is None and time.monotonic() < deadline:
        peak = max(peak, tree_memory_bytes(process.pid))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_SAMPLE_SECONDS)
    return peak


def tree_memory_bytes(pid: int) -> int:
    """Proportional set size of a process and all its descendants together."""
    try:
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0
    return sum(_pss_bytes(process.pid) for process in tree)


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it ended meanwhile, or is a zombie
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
