"""The command under test in a process of its own, with a mark on everything that it starts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from tests.tuner.waiting import happens

ROOT = Path(__file__).resolve().parents[2]
#: In the environment of the command and of all it starts, from its first moment on; what the
#: command marks itself comes later, and only on what belongs to its farm.
_MARK = "TUNE_FARM_E2E"
#: What runs of this user learned stays out of tests, and the other way round.
_ALONE = {"TUNE_FARM_NO_MEMORY": "1"}


class Command:
    """`python -m tune_farm …`, running. Ends all of it when left as a context manager."""

    def __init__(
        self,
        *arguments: str | Path,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        root: Path = ROOT,
        prefix: tuple[str, ...] = (),
    ) -> None:
        """Start.

        Args:
            arguments: after `tune-farm`.
            cwd: where it is called.
            environment: variables set on top of this process's.
            root: the checkout that is tested.
            prefix: a program that calls the command, with its arguments.
        """
        self._mark = uuid.uuid4().hex
        self._out, self._err = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115
        python_path = {} if root == cwd else {"PYTHONPATH": str(root)}
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "tune_farm", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            cwd=cwd,
            env={**os.environ, **_ALONE, **python_path, **(environment or {}), _MARK: self._mark},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The command's process, which is also the server of its farm."""
        return self.process.pid

    @property
    def stdout(self) -> str:
        """All that it has written so far."""
        return _text(self._out)

    @property
    def stderr(self) -> str:
        """All that it has written so far."""
        return _text(self._err)

    @property
    def is_running(self) -> bool:
        """Whether the command itself is still there."""
        return self.process.poll() is None

    def wait(self, timeout_seconds: float = 240.0) -> int:
        """Wait for the command's end; returns its exit code."""
        return self.process.wait(timeout_seconds)

    def processes(self, word: str = "") -> list[psutil.Process]:
        """All its live processes, or those with a word in their command line."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_MARK) != self._mark:
                    continue
                if process.status() != psutil.STATUS_ZOMBIE and word in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def leftovers(self, within_seconds: float = 10.0) -> list[str]:
        """The command lines of processes that are still there after a while."""
        happens(lambda: not self.processes(), within_seconds)
        lines = []
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                lines.append(f"{process.pid}: {' '.join(process.cmdline())}")
        return lines

    def __enter__(self) -> Command:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        deadline = time.monotonic() + 10.0
        while (left := self.processes()) and time.monotonic() < deadline:
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(0.1)
        self.process.wait(10)
        self._out.close()
        self._err.close()


def outcomes(directory: Path) -> list[dict[str, Any]]:
    """The whole lines of a run's journal, without the header; none if there is no journal yet."""
    try:
        text = (directory / "records.jsonl").read_text()
    except FileNotFoundError:
        return []
    whole, _, _ = text.rpartition("\n")
    rows = [json.loads(line) for line in whole.splitlines()]
    return [row for row in rows if row["kind"] == "outcome"]


def keys(rows: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """What must be unique in a journal."""
    return [(row["candidate"], row["purpose"], row["attempt"]) for row in rows]


def _text(file: Any) -> str:
    # By offset: the command shares the file's position.
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode(errors="replace")
