"""The journal: append-only JSON lines, one writer, every acknowledged record on the disk."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tune_farm.tuner.errors import RunDirectoryError
from tune_farm.tuner.records.durable import (
    free_name,
    sync_directory,
    write_atomically,
    write_error,
)
from tune_farm.tuner.records.schema import (
    VERSION,
    Header,
    JsonObject,
    StoredRecord,
    header_from_json,
    header_to_json,
    record_from_json,
    record_to_json,
)
from tune_farm.tuner.types import Record

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalContents:
    """All that a journal file says."""

    header: Header
    stored: tuple[StoredRecord, ...]  # in the order of writing, each key once
    good_bytes: int  # the file up to its last whole line
    torn: bytes  # what lies behind: a line that a kill or a power cut interrupted


class Journal:
    """One journal, open for writing. Not for several threads, nor for several processes."""

    def __init__(self, path: Path, header: Header, stored: Iterable[StoredRecord]) -> None:
        self.path = path
        self.header = header
        #: Everything on the disk, in the order of writing.
        self._stored = list(stored)
        #: The keys of `_stored`.
        self._keys = {item.record.key for item in self._stored}
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise RunDirectoryError(f"cannot write {path}: {error.strerror}") from error

    @classmethod
    def create(cls, path: Path, header: Header) -> Journal:
        """Start a journal; its header is there whole, or the file is not there.

        Raises:
            RunDirectoryError: there is a journal already.
            EnvironmentUnusableError: the file could not be written.
        """
        if path.exists():
            raise RunDirectoryError(
                f"{path} exists already", "--resume to go on, --restart to begin again"
            )
        write_atomically(path, _line(header_to_json(header)))
        return cls(path, header, ())

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Open a journal to go on with it; a torn last line is moved to `<path>.torn-<n>`.

        Raises:
            RunDirectoryError: the file cannot be read, or is no journal of this version.
        """
        contents = read_journal(path)
        if contents.torn:
            _quarantine(path, contents)
        return cls(path, contents.header, contents.stored)

    @property
    def stored(self) -> tuple[StoredRecord, ...]:
        """Everything on the disk, in the order of writing."""
        return tuple(self._stored)

    @property
    def records(self) -> tuple[Record, ...]:
        """The records on the disk, in the order of writing."""
        return tuple(item.record for item in self._stored)

    @property
    def spent_seconds(self) -> float:
        """The budget clock at the last record; a resumed run goes on from there."""
        return max((item.spent_seconds for item in self._stored), default=0.0)

    def append(self, record: Record, *, spent_seconds: float) -> bool:
        """Put one record on the disk; False if its key is there already.

        Raises:
            EnvironmentUnusableError: the disk is full; the journal is as it was before.
        """
        return bool(self.append_all((record,), spent_seconds=spent_seconds))

    def append_all(self, records: Iterable[Record], *, spent_seconds: float) -> int:
        """Put records on the disk with one sync, all or none; return how many were new.

        Raises:
            EnvironmentUnusableError: the disk is full; the journal is as it was before.
        """
        new: dict[tuple[str, str, int], Record] = {}
        for record in records:
            if record.key not in self._keys:
                new.setdefault(record.key, record)
        if not new:
            return 0
        lines = [_line(record_to_json(r, spent_seconds=spent_seconds)) for r in new.values()]
        self._write("".join(lines).encode())
        self._keys.update(new)
        self._stored += [StoredRecord(record=r, spent_seconds=spent_seconds) for r in new.values()]
        return len(new)

    def close(self) -> None:
        """Close the file; closing twice is safe."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, data: bytes) -> None:
        size = os.fstat(self._descriptor).st_size
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except BaseException as error:
            # Also on an interrupt: half a line followed by the next record would be unreadable.
            # Should this fail too, what is left is a torn last line, which `open` knows.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, size)
                os.fsync(self._descriptor)
            if isinstance(error, OSError):
                raise write_error(error, self.path) from error
            raise


def read_journal(path: Path) -> JournalContents:
    """Read a journal and change nothing, so that one still being written can be looked at.

    Raises:
        RunDirectoryError: the file cannot be read, or is no journal of this version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunDirectoryError(f"cannot read {path}: {error.strerror}") from error
    lines = io.BytesIO(data).readlines()  # at newlines only, unlike `splitlines`
    objects: list[tuple[int, JsonObject]] = []
    position = good_bytes = 0
    torn_number = 0
    for number, line in enumerate(lines, start=1):
        position += len(line)
        if not line.strip() and line.endswith(b"\n"):
            continue
        item = _parse(line)
        if torn_number:
            raise _damaged(path, torn_number, "it is not a whole JSON object")
        if item is None:
            torn_number = number
            continue
        good_bytes = position
        objects.append((number, item))
    header = _header(path, objects)
    return JournalContents(
        header=header,
        stored=_stored(path, objects[1:]),
        good_bytes=good_bytes,
        torn=data[good_bytes:] if torn_number else b"",
    )


def _parse(line: bytes) -> JsonObject | None:
    # Without its newline a line was never acknowledged, even if it looks whole.
    if not line.endswith(b"\n"):
        return None
    try:
        item = json.loads(line.decode())
    except ValueError:
        return None
    return item if isinstance(item, dict) else None


def _header(path: Path, objects: list[tuple[int, JsonObject]]) -> Header:
    number, item = objects[0] if objects else (1, {})
    if item.get("kind") != "header":
        raise _damaged(path, number, "there is no header")
    if item.get("v") != VERSION:
        raise RunDirectoryError(
            f"{path} is a journal of version {item.get('v')}; this tune-farm reads {VERSION}",
            "use the tune-farm that wrote it, or --restart to begin again",
        )
    try:
        return header_from_json(item)
    except ValueError as error:
        raise _damaged(path, number, str(error)) from error


def _stored(path: Path, objects: list[tuple[int, JsonObject]]) -> tuple[StoredRecord, ...]:
    stored: dict[tuple[str, str, int], StoredRecord] = {}
    for number, item in objects:
        if item.get("kind") != "outcome":
            raise _damaged(path, number, f"its kind is {item.get('kind')!r}, not 'outcome'")
        try:
            entry = record_from_json(item)
        except ValueError as error:
            raise _damaged(path, number, str(error)) from error
        stored.setdefault(entry.record.key, entry)
    return tuple(stored.values())


def _damaged(path: Path, number: int, why: str) -> RunDirectoryError:
    return RunDirectoryError(
        f"{path}, line {number} is damaged: {why}",
        "remove that line to go on without it, or --restart to begin again",
    )


def _quarantine(path: Path, contents: JournalContents) -> None:
    """Move the torn end aside: a durable copy first, so a kill before the cut loses nothing."""
    aside = free_name(path, "torn")
    try:
        with aside.open("xb") as file:
            file.write(contents.torn)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path.parent)
        with path.open("r+b") as file:
            file.truncate(contents.good_bytes)
            os.fsync(file.fileno())
    except OSError as error:
        raise write_error(error, path) from error
    _log.warning("%s ended in a torn line; it was moved to %s", path, aside)


def _line(item: JsonObject) -> str:
    return json.dumps(item, allow_nan=False) + "\n"
