"""What runs learned about the law, kept for later ones: one small file a run, never needed.

The journal stays the truth. A file that can't be read or written costs what it would have taught;
it never costs a run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tune_farm.tuner.predictor.lessons import Chapter, Lesson

_LOG = logging.getLogger(__name__)

VERSION = 1
#: Rows that a run may leave; they are written as they come, so the later ones are left out.
MOST_OF_RUN = 4096
#: Rows of one run that are recalled, spread over the run: one long run must not crowd out others.
MOST_RECALLED_OF_RUN = 1024
#: Rows that are recalled in all; a fit to so many takes a fraction of a second.
MOST_RECALLED = 4096
#: Files in the folder, of all laws; the oldest go when a new one begins.
MOST_FILES = 32
_MOST_BYTES = 16 << 20
#: No feature and no error, logarithms all, comes near it.
_BEYOND = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What earlier runs left, the latest run first."""

    chapters: tuple[Chapter, ...] = ()
    sha256: str = ""  # of the rows; two runs that begin with the same ones propose the same
    damaged: tuple[str, ...] = ()  # a line each: files that can't be used, and why

    @property
    def rows(self) -> int:
        """Lessons of all runs together."""
        return sum(len(chapter.lessons) for chapter in self.chapters)


def recall(folder: Path, law: str, *, leave_out: str) -> Recalled:
    """Read what earlier runs learned of a law; nothing here raises.

    Args:
        folder: where their files are; it may be missing.
        law: version of the law.
        leave_out: id of the run that asks: what it learned before, its own records tell.
    """
    chapters: list[Chapter] = []
    damaged: list[str] = []
    digest = hashlib.sha256()
    room = MOST_RECALLED
    for path in _newest_first(folder, f"*.{law}.jsonl"):
        if path.name == _file_name(leave_out, law) or room <= 0:
            continue
        try:
            place, lines = _read(path)
            lines = _spread(lines, min(room, MOST_RECALLED_OF_RUN))
            lessons = tuple(_lesson(line) for line in lines)
            if len({len(each.features) for each in (*lessons, *_first(chapters))}) > 1:
                raise ValueError("its rows differ in length from each other or from other runs'")
        except (OSError, ValueError, TypeError, KeyError) as error:
            cause = error.strerror if isinstance(error, OSError) else error
            damaged.append(f"{path}: {' '.join(str(cause).split())[:160]}")
            continue
        if not lessons:
            continue
        room -= len(lessons)
        chapters.append(Chapter(place=place, lessons=lessons))
        digest.update("\n".join([place, *lines]).encode())
    return Recalled(
        chapters=tuple(chapters),
        sha256=digest.hexdigest() if chapters else "",
        damaged=tuple(damaged),
    )


class Notebook:
    """Writes what one run learns; after the first failure it says so once and stays silent."""

    def __init__(
        self, folder: Path, *, run_id: str, law: str, header: dict[str, Any], place: str
    ) -> None:
        """Name the file; it is made with the first lesson.

        Args:
            folder: where files of all runs are; made if it is missing.
            run_id: of the run; a resumed one goes on in its file.
            law: version of the law.
            header: provenance, as JSON.
            place: device class and share.
        """
        self._path = folder / _file_name(run_id, law)
        self._header = {"v": VERSION, "kind": "memory", "law": law, "place": place, **header}
        self._lines: set[str] | None = None  #: what the file holds; None: not opened yet
        self._is_broken = False

    def add(self, lessons: Iterable[Lesson], kind_of: Callable[[str], str]) -> None:
        """Append lessons that are not there yet; nothing here raises.

        Args:
            lessons: told again, they are left out.
            kind_of: the kind of a task, by its id.
        """
        usable = [lesson for lesson in lessons if _is_sane(lesson)]
        if self._is_broken or not usable:
            return
        try:
            if self._lines is None:
                self._lines = self._open()
            new = dict.fromkeys(_line(each, kind_of(each.task_id)) for each in usable)
            lines = [line for line in new if line not in self._lines]
            lines = lines[: max(0, MOST_OF_RUN - len(self._lines))]
            self._append(lines)
            self._lines.update(lines)
        except (OSError, ValueError, TypeError, KeyError) as error:
            self._is_broken = True
            cause = error.strerror if isinstance(error, OSError) else error
            _LOG.warning("what this run learns is not kept: %s: %s", self._path, cause)

    def _open(self) -> set[str]:
        """Make the file, or take up the one that an earlier session of the run left."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._path.exists() and self._path.stat().st_size > 0:
            return set(_read(self._path)[1])
        for old in list(_newest_first(self._path.parent, "*.jsonl"))[MOST_FILES - 1 :]:
            with contextlib.suppress(OSError):  # another run that begins now was quicker
                old.unlink()
        self._path.touch()
        self._append([json.dumps(self._header, allow_nan=False)])
        return set()

    def _append(self, lines: list[str]) -> None:
        if not lines:
            return
        data = "".join(f"{line}\n" for line in lines).encode()
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data  # a kill tore the last line
            if os.write(descriptor, data) < len(data):
                raise OSError(None, "disk full")
        finally:
            os.close(descriptor)


def _file_name(run_id: str, law: str) -> str:
    return f"{run_id}.{law}.jsonl"


def _newest_first(folder: Path, pattern: str) -> Iterator[Path]:
    def age(path: Path) -> tuple[float, str]:
        with contextlib.suppress(OSError):
            return path.stat().st_mtime, path.name
        return 0.0, path.name

    with contextlib.suppress(OSError):
        yield from sorted(folder.glob(pattern), key=age, reverse=True)


def _read(path: Path) -> tuple[str, list[str]]:
    """The place and the whole rows of a file, as text.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a file of this version.
    """
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError("it is too large to be one")
    text, _, _ = path.read_text(encoding="utf-8").rpartition("\n")  # the last line may be torn
    first, *lines = text.split("\n")
    if not first:
        return "", []  # a run that begins just now, or was killed as it began
    header = json.loads(first)
    if not isinstance(header, dict) or header.get("kind") != "memory":
        raise ValueError("it has no header")
    if header.get("v") != VERSION:
        raise ValueError(f"it is of version {header.get('v')}; this tune-farm reads {VERSION}")
    return str(header["place"]), [line for line in lines if _is_whole(line)]


def _is_whole(line: str) -> bool:
    return line.startswith("{") and line.endswith("}")


def _spread(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    return [lines[number * len(lines) // most] for number in range(most)]


def _line(lesson: Lesson, kind: str) -> str:
    item = {
        "task": lesson.task_id,
        "kind": kind,
        "log2_error": float(f"{lesson.log2_error:.6g}"),
        "features": [float(f"{value:.6g}") for value in lesson.features],
    }
    return json.dumps(item, allow_nan=False)


def _lesson(line: str) -> Lesson:
    item = json.loads(line)
    lesson = Lesson(
        task_id=str(item["task"]),
        features=tuple(float(value) for value in item["features"]),
        log2_error=float(item["log2_error"]),
    )
    if not lesson.features or not _is_sane(lesson):
        raise ValueError("a row holds numbers that no measurement gives")
    return lesson


def _is_sane(lesson: Lesson) -> bool:
    # Also false of NaN.
    return all(abs(value) < _BEYOND for value in (lesson.log2_error, *lesson.features))


def _first(chapters: list[Chapter]) -> tuple[Lesson, ...]:
    return chapters[0].lessons[:1] if chapters else ()
