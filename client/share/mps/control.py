"""Speaks to an MPS control daemon through NVIDIA's command; every word has a deadline.

The command's exit code proves nothing: it is 0 when there is no daemon. What it prints counts.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tune_farm.client.share.mps.errors import MpsError, MpsProblem

BINARY = "nvidia-cuda-mps-control"
#: Where a daemon listens that nobody told otherwise (NVIDIA's MPS documentation).
USUAL_PIPES = Path("/tmp/nvidia-mps")  # noqa: S108
PIPE_DIRECTORY = "CUDA_MPS_PIPE_DIRECTORY"
_DEADLINE_SECONDS = 5.0
_NO_DAEMON = re.compile(r"cannot find mps control daemon|connect.*(failed|refused)", re.IGNORECASE)
_REFUSED = re.compile(r"(error|failed|invalid|unknown|not (found|recognized|supported))", re.I)
_NUMBERS = re.compile(r"\s*\d+(\s+\d+)*\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A static partition of SMs, as `lspart` lists it."""

    name: str  # "GPU-…/3", which a client names in CUDA_MPS_SM_PARTITION
    chunks: int
    sms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The daemon that listens in one pipe directory."""

    pipe_directory: Path
    binary: str = BINARY
    deadline_seconds: float = _DEADLINE_SECONDS

    def servers(self) -> tuple[int, ...]:
        """Pids of its servers; a daemon that nobody has called on has none."""
        return self._pids("get_server_list")

    def status(self, server: int) -> str:
        """ACTIVE, INITIALIZING or FAULT, as the daemon says."""
        return self.ask(f"get_server_status {server}").strip().upper()

    def clients(self, server: int) -> tuple[int, ...]:
        """Pids of a server's clients, as the daemon's pid namespace counts."""
        return self._pids(f"get_client_list {server}")

    def default_percentage(self) -> float:
        """The ceiling of clients of servers that start from now on."""
        return self._number("get_default_active_thread_percentage")

    def percentage(self, server: int) -> float:
        """The ceiling of a server's new clients."""
        return self._number(f"get_active_thread_percentage {server}")

    def terminate(self, server: int, client: int) -> None:
        """End a client's work on the GPU; only then may its process be killed.

        Raises:
            MpsError: the daemon did not say that it did.
        """
        answer = self.ask(f"terminate_client {server} {client}")
        if "CUDA_SUCCESS" not in answer:
            raise self._unexpected("terminate_client", answer)

    def add_partition(self, gpu: str, chunks: int) -> str:
        """Set aside SMs for one client; the name it has to give.

        Raises:
            MpsError: not so many are left, or this daemon knows no partitions.
        """
        answer = self.ask(f"sm_partition add {gpu} {chunks}").strip()
        if not answer.startswith(f"{gpu}/"):
            raise self._unexpected("sm_partition add", answer)
        return answer

    def remove_partition(self, name: str) -> None:
        """Give back the SMs of a partition that nobody uses."""
        gpu, _, number = name.partition("/")
        self._quietly(f"sm_partition rm {gpu} {number}")

    def partitions(self) -> tuple[Partition, ...]:
        """All partitions; a line that is none of ours to read is left out."""
        found = []
        for line in self.ask("lspart").splitlines():
            words = line.split()
            if len(words) >= 3 and "/" in words[0] and words[1].isdecimal():
                numbers = [int(word) for word in words[1:] if word.isdecimal()]
                if len(numbers) >= 2:
                    found.append(Partition(name=words[0], chunks=numbers[0], sms=numbers[1]))
        return tuple(found)

    def quit(self) -> None:
        """End the daemon and its server."""
        self.ask("quit")

    def ask(self, command: str) -> str:
        """Say one command and hear the answer.

        Raises:
            MpsError: no binary, no daemon, or no answer in time.
        """
        try:
            said = run(
                [self.binary],
                environment={**os.environ, PIPE_DIRECTORY: str(self.pipe_directory)},
                stdin=f"{command}\n",
                timeout_seconds=self.deadline_seconds,
            )
        except TimeoutError:
            raise MpsError(
                MpsProblem.HANGS,
                f"the MPS daemon of {self.pipe_directory} did not answer '{command}' in "
                f"{self.deadline_seconds:.0f} s",
            ) from None
        if _NO_DAEMON.search(said):
            raise MpsError(MpsProblem.NO_DAEMON, f"no MPS daemon listens in {self.pipe_directory}")
        return said

    def _pids(self, command: str) -> tuple[int, ...]:
        answer = self.ask(command)
        if answer.strip() and not _NUMBERS.fullmatch(answer):
            raise self._unexpected(command, answer)
        return tuple(int(word) for word in answer.split())

    def _number(self, command: str) -> float:
        answer = self.ask(command).strip()
        try:
            return float(answer)
        except ValueError:
            raise self._unexpected(command, answer) from None

    def _quietly(self, command: str) -> None:
        answer = self.ask(command)
        if _REFUSED.search(answer):
            raise self._unexpected(command, answer)

    def _unexpected(self, command: str, answer: str) -> MpsError:
        said = " ".join(answer.split()) or "nothing"
        return MpsError(
            MpsProblem.REFUSES,
            f"the MPS daemon of {self.pipe_directory} answered '{command}' with: {said[:200]}",
        )


def find_binary(path: str | None = None) -> str:
    """NVIDIA's control command.

    Raises:
        MpsError: it is not on PATH.
    """
    found = shutil.which(BINARY, path=path)
    if found is None:
        raise MpsError(MpsProblem.NO_BINARY, f"{BINARY} is not on PATH")
    return found


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    stdin: str = "",
    timeout_seconds: float,
) -> str:
    """Run a command and return all that it printed.

    Raises:
        TimeoutError: it did not end in time; it was killed, with all it started.
    """
    # A file, and no pipe: a daemon may keep open what the command that started it wrote to.
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(  # noqa: S603 - an argument list, and no shell
            list(command),
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )
        try:
            process.communicate(stdin.encode(), timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{command[0]} did not end") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()
            if process.stdin is not None:
                process.stdin.close()
        said.seek(0)
        return said.read().decode(errors="replace")
