"""One folder holds one run: its layout, its lock, and what begins or goes on in it."""

from __future__ import annotations

import enum
import errno
import fcntl
import json
import os
import re
import secrets
import socket
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType

from tune_farm.tuner.errors import RunDirectoryError, UsageError
from tune_farm.tuner.records.durable import sync_directory, write_atomically, write_error

JOURNAL = "records.jsonl"
MODEL = "model.tvm.json"
SUMMARY = "summary.json"
EVENTS = "events.jsonl"
WORKLOADS = "database_workload.json"
TUNING_RECORDS = "database_tuning_record.json"
FAILURES = "failures"
LOCK = "lock"

#: What --restart moves aside. The journal goes last: as long as it is there, a restart that was
#: killed half-way can be repeated.
_RETIRED = (SUMMARY, EVENTS, WORKLOADS, TUNING_RECORDS, FAILURES, JOURNAL)


class OpenMode(enum.Enum):
    """What to do with records that are there already."""

    NEW = "new"  # refuse
    RESUME = "resume"  # go on with them
    RESTART = "restart"  # move them aside


class RunDirectory:
    """A run directory that this process has locked; made by `create`."""

    def __init__(self, path: Path, run_id: str, lock_descriptor: int) -> None:
        self.path = path
        #: Made for this opening; a resumed run keeps the one of its journal's header.
        self.run_id = run_id
        #: Holds the lock for as long as it is open; -1 once closed.
        self._lock_descriptor = lock_descriptor

    @classmethod
    def create(
        cls,
        path: Path | None,
        *,
        run_id: str,
        mode: OpenMode = OpenMode.NEW,
        root: Path = Path("runs"),
    ) -> RunDirectory:
        """Make or open a run directory, and lock it until `close`.

        Args:
            path: the directory asked for; None makes `<root>/<run_id>`.
            run_id: of `new_run_id`.
            mode: what to do with a journal that is there already.
            root: where directories without a path are made.

        Raises:
            UsageError: the directory cannot be written, or there is nothing to resume.
            RunDirectoryError: another run holds it, or holds records and `mode` is NEW.
            EnvironmentUnusableError: the disk is full.
        """
        if mode is OpenMode.RESUME:
            _refuse_nothing_to_resume(path)
        path = path or root / run_id
        directory = cls(path, run_id, _make_and_lock(path))
        try:
            directory._apply(mode)
        except BaseException:
            directory.close()
            raise
        return directory

    @property
    def journal_path(self) -> Path:
        """Where the records are."""
        return self.path / JOURNAL

    @property
    def events_path(self) -> Path:
        """Where `EventLog` writes."""
        return self.path / EVENTS

    @property
    def summary_path(self) -> Path:
        """The last file of a run; missing as long as it has not ended."""
        return self.path / SUMMARY

    @property
    def model_path(self) -> Path:
        """The module as tuned, as TVM's JSON text."""
        return self.path / MODEL

    @property
    def failures_path(self) -> Path:
        """The folder that `FailureLog` writes to."""
        return self.path / FAILURES

    @property
    def logs_path(self) -> Path:
        """The folder for logs of the run's processes."""
        return self.path / "logs"

    def write_config(self, toml: str) -> None:
        """Write the resolved configuration."""
        write_atomically(self.path / "config.toml", toml)

    def write_environment(self, environment: Mapping[str, object]) -> None:
        """Write versions and hardware, as JSON."""
        write_atomically(self.path / "environment.json", _document(environment))

    def write_model(self, module_json: str) -> None:
        """Write the module as tuned."""
        write_atomically(self.model_path, module_json)

    def write_summary(self, summary: Mapping[str, object]) -> None:
        """Write the summary, whole or not at all; its presence says that the run has ended."""
        write_atomically(self.summary_path, _document(summary))

    def retire_summary(self) -> None:
        """Move the summary of an earlier ending aside.

        Call it when a resumed journal has been accepted: from then on an old summary would lie.
        """
        self._move_aside((SUMMARY,))

    def close(self) -> None:
        """Give the lock back; closing twice is safe."""
        if self._lock_descriptor >= 0:
            # An empty lock file tells a report that the run ended by itself.
            os.ftruncate(self._lock_descriptor, 0)
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _apply(self, mode: OpenMode) -> None:
        try:
            if mode is OpenMode.RESTART:
                self._move_aside(_RETIRED)
            elif mode is OpenMode.NEW and self.journal_path.exists():
                raise _holds_records(self.path)
            self.failures_path.mkdir(exist_ok=True)
            self.logs_path.mkdir(exist_ok=True)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def _move_aside(self, names: tuple[str, ...]) -> None:
        number = 1
        while any((self.path / f"{name}.old-{number}").exists() for name in _RETIRED):
            number += 1
        for name in names:
            if (self.path / name).exists():
                (self.path / name).rename(self.path / f"{name}.old-{number}")
        sync_directory(self.path)


def check_out(path: Path | None, mode: OpenMode) -> None:
    """Refuse at once what `RunDirectory.create` would refuse later; makes nothing.

    Raises:
        UsageError: the directory could not be made or written, or there is nothing to resume.
        RunDirectoryError: another run holds it, or holds records and `mode` is NEW.
    """
    if mode is OpenMode.RESUME:
        _refuse_nothing_to_resume(path)
    if path is None:
        path = Path("runs")
    existing = next((each for each in (path, *path.absolute().parents) if each.exists()), path)
    if not existing.is_dir():
        raise _not_here(path, f"{existing} is no folder")
    # Root may write to /proc, by its permissions; nothing can be made there all the same.
    if not os.access(existing, os.W_OK | os.X_OK) or existing == Path("/proc"):
        raise _not_here(path, f"nothing can be made in {existing}")
    if (path / LOCK).exists():
        os.close(_lock(path))
    if mode is OpenMode.NEW and (path / JOURNAL).exists():
        raise _holds_records(path)


def lock_owner(path: Path) -> str | None:
    """Return "pid HOST" text of a run that may still hold the directory, without touching its lock.

    A dead process of this host is no owner; of another host nobody here can know.
    """
    try:
        pid, host = (path / LOCK).read_text().split()
        number = int(pid)
    except (OSError, ValueError):
        return None
    if host == socket.gethostname() and not Path(f"/proc/{number}").exists():
        return None
    return f"pid {pid} on {host}"


def new_run_id(model: str, now: datetime | None = None) -> str:
    """A name for a run: `<date>-<model>-<id>`.

    Args:
        model: the model's name or file.
        now: the date; the present if None.
    """
    stem = Path(model).stem if model.endswith((".onnx", ".pt2")) else model
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", stem).strip("-.")[:40] or "model"
    return f"{now or datetime.now():%Y%m%d}-{slug}-{secrets.token_hex(3)}"


def _refuse_nothing_to_resume(path: Path | None) -> None:
    if path is None:
        raise UsageError(
            "no run to go on with is named", "name its directory with --out DIR --resume"
        )
    if not (path / JOURNAL).exists():
        raise UsageError(
            f"nothing to resume: there is no {path / JOURNAL}",
            "leave --resume or --retry-failed out to begin, or name another directory with --out",
        )


def _make_and_lock(path: Path) -> int:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error
    descriptor = _lock(path)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
    except OSError as error:
        os.close(descriptor)
        raise _unwritable(path, error) from error
    return descriptor


def _lock(path: Path) -> int:
    """Lock a directory that exists; the file is left as it is and names the owner."""
    try:
        descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(descriptor, 400, 0).decode(errors="replace").split()
        os.close(descriptor)
        who = f"pid {owner[0]} on {owner[1]}" if len(owner) == 2 else "another process"
        raise RunDirectoryError(
            f"{path} is in use by a run: {who}", "wait for it, stop it, or name another --out"
        ) from error
    except OSError as error:
        os.close(descriptor)
        raise _unwritable(path, error) from error
    return descriptor


def _holds_records(path: Path) -> RunDirectoryError:
    return RunDirectoryError(
        f"{path} holds the records of an earlier run",
        "--resume to go on, --restart to begin again",
    )


def _unwritable(path: Path, error: OSError) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return write_error(error, path)
    return _not_here(path, error.strerror or str(error))


def _not_here(path: Path, reason: str) -> UsageError:
    return UsageError(f"cannot write to {path}: {reason}", "name another directory with --out")


def _document(value: Mapping[str, object]) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"
