"""The parent's side of a child process: exec, never fork; one owner, one channel, one lifeline."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

import tune_farm

# The package comes from where the parent has it, even if another copy is installed; what else lies
# beside it stays unknown.
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]); import tune_farm; del sys.path[0]; "
    "from tune_farm.tuner.children.entry import main; main(sys.argv[2])"
)
_ROOT = str(Path(tune_farm.__file__).resolve().parent.parent)
_STDERR_TAIL_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """What a child is born under; set before its first import."""

    role: str  # module with a `serve(connection)` function
    name: str  # for people and for its stderr file
    cores: tuple[int, ...]  # CPU affinity
    threads: int  # TVM's and OpenMP's thread count
    scratch: Path  # its working directory; must exist
    environment: Mapping[str, str] = field(default_factory=dict)


class ChildDiedError(Exception):
    """The child ended while an answer was due.

    Args:
        signal_number: the signal that ended it, or None if it exited by itself.
        detail: one line with the cause, then its last stderr.
    """

    def __init__(self, signal_number: int | None, detail: str) -> None:
        super().__init__(detail)
        self.signal_number = signal_number
        self.detail = detail


class ChildSilentError(Exception):
    """The child gave no answer within the time allowed; it still runs."""


class Child:
    """One running child. Whoever makes it must `kill` it."""

    def __init__(self, birth: Birth) -> None:
        self._stderr_path = birth.scratch / f"{birth.name}.stderr"
        self.connection: Connection[Any, Any]
        self.connection, theirs = Pipe(duplex=True)
        lifeline_read, self._lifeline = os.pipe()
        config = json.dumps(
            {
                "role": birth.role,
                "cores": birth.cores,
                "channel": theirs.fileno(),
                "lifeline": lifeline_read,
            }
        )
        with self._stderr_path.open("wb") as stderr:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-c", _BOOTSTRAP, _ROOT, config],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                cwd=birth.scratch,
                env=_environment(birth),
                pass_fds=(theirs.fileno(), lifeline_read),
                start_new_session=True,  # killable as a group; the terminal's Ctrl-C stays away
            )
        theirs.close()
        os.close(lifeline_read)
        self.name = birth.name

    @property
    def pid(self) -> int:
        """The child's process id, also its process group."""
        return self._process.pid

    def send(self, message: object) -> None:
        """Hand over a message.

        Raises:
            ChildDiedError: nobody is there to read it.
        """
        try:
            self.connection.send(message)
        except OSError:
            raise self._died() from None

    def receive(self, timeout_seconds: float) -> Any:
        """Wait for the next message.

        Raises:
            ChildSilentError: none came in time.
            ChildDiedError: the child ended instead.
        """
        try:
            if not self.connection.poll(timeout_seconds):
                raise ChildSilentError(f"{self.name} gave no answer in {timeout_seconds:.1f} s")
            return self.connection.recv()
        except (EOFError, OSError):
            raise self._died() from None

    def kill(self) -> None:
        """End the child and all it started, at once; safe to call twice."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.connection.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def stderr_tail(self) -> str:
        """The last lines that the child wrote."""
        try:
            text = self._stderr_path.read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-_STDERR_TAIL_LINES:])

    def _died(self) -> ChildDiedError:
        # The channel closes a moment before the kernel lets us reap; a child that closed it but
        # lives on is as good as dead to us.
        deadline = time.monotonic() + 2.0
        while (code := self._process.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.005)
        self.kill()
        number = -code if code is not None and code < 0 else None
        how = _signal_name(number) if number else f"exit code {code}"
        tail = self.stderr_tail()
        return ChildDiedError(number, f"{self.name} died: {how}" + (f"\n{tail}" if tail else ""))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _environment(birth: Birth) -> dict[str, str]:
    # Everything that decides threads is set outright: what is inherited may come from a Ray worker
    # (OMP_NUM_THREADS=1) or from the user's shell.
    return {
        **os.environ,
        "OMP_NUM_THREADS": str(birth.threads),
        "TVM_NUM_THREADS": str(birth.threads),
        "TVM_BIND_THREADS": "0",  # TVM would otherwise widen the affinity to all cores
        "PYTHONUNBUFFERED": "1",
        **birth.environment,
    }
