"""One text file for each distinct cause of failure, however often it struck."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tune_farm.tuner.records.durable import write_atomically
from tune_farm.tuner.types import Failed

#: A cause that was not recognised as one may differ in every candidate; a disk is finite.
MAX_FILES = 200

_PATHS = re.compile(r"(?:/[\w.+~-]+){2,}")
_HASHES = re.compile(r"\b(?:0x[0-9a-fA-F]+|(?=[0-9a-f]*\d)[0-9a-f]{8,})\b")
_NUMBERS = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCause:
    """A distinct cause and how often it struck since this process began."""

    signature: str
    fault: str
    first_line: str  # as first seen
    count: int


class FailureLog:
    """Writes `<folder>/<signature>.txt` the first time that a cause is seen."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: How often each signature struck, in the order of first appearance.
        self._counts: Counter[str] = Counter()
        #: Each signature's fault and first line, as first seen.
        self._causes: dict[str, tuple[str, str]] = {}

    def add(self, failed: Failed, *, task_name: str, candidate_id: str, client: str = "") -> str:
        """Count a failure; write its file if the cause is new. Returns the signature.

        Raises:
            EnvironmentUnusableError: the file could not be written.
        """
        signature = signature_of(failed)
        self._counts[signature] += 1
        if signature not in self._causes:
            self._causes[signature] = failed.fault.value, first_line(failed.detail)
            path = self._folder / f"{signature}.txt"
            if len(self._causes) <= MAX_FILES and not path.exists():
                where = f"task: {task_name}\ncandidate: {candidate_id}\n"
                where += f"client: {client}\n" if client else ""
                # A worker's stderr may hold bytes that are no text.
                detail = failed.detail.encode(errors="backslashreplace").decode()
                write_atomically(path, f"fault: {failed.fault.value}\n{where}\n{detail}\n")
        return signature

    @property
    def causes(self) -> tuple[FailureCause, ...]:
        """All causes, most frequent first."""
        return tuple(
            FailureCause(
                signature=signature,
                fault=self._causes[signature][0],
                first_line=self._causes[signature][1],
                count=count,
            )
            for signature, count in self._counts.most_common()
        )

    @property
    def first(self) -> str | None:
        """The first failure of all: what to look at if nothing could be measured."""
        for fault, line in self._causes.values():
            return f"{fault}: {line}" if line else fault
        return None


def signature_of(failed: Failed) -> str:
    """Return a file name for a cause: equal if only numbers, addresses, hashes or paths differ."""
    line = first_line(failed.detail)
    for pattern, word in ((_PATHS, "<path>"), (_HASHES, "<hash>"), (_NUMBERS, "<n>")):
        line = pattern.sub(word, line)
    digest = hashlib.sha256(line.encode(errors="backslashreplace")).hexdigest()[:8]
    return f"{failed.fault.value}-{digest}"


def first_line(detail: str) -> str:
    """Return the first line that says something."""
    return next((line.strip() for line in detail.splitlines() if line.strip()), "")
