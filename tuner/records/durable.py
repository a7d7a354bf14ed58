"""Files that survive a kill and a power cut: whole or not there."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from tune_farm.tuner.errors import EnvironmentUnusableError

#: EFBIG is a file size limit of the shell or batch system: for the user the same as a full disk.
_FULL = {errno.ENOSPC: "disk full", errno.EDQUOT: "quota used up", errno.EFBIG: "file size limit"}


def write_error(error: OSError, path: Path) -> EnvironmentUnusableError:
    """Return the error for a file that could not be written, with what to do about it."""
    if error.errno in _FULL:
        return EnvironmentUnusableError(
            f"{_FULL[error.errno]} while writing {path}", "free space and go on with --resume"
        )
    return EnvironmentUnusableError(
        f"cannot write {path}: {error.strerror or error}", "mend it and go on with --resume"
    )


def sync_directory(directory: Path) -> None:
    """Make names created, renamed or removed in `directory` durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, text: str) -> None:
    """Write a whole file under its name, or leave what was there.

    Raises:
        EnvironmentUnusableError: the file could not be written.
    """
    temporary = path.with_name(f".{path.name}.new")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise write_error(error, path) from error


def free_name(path: Path, suffix: str) -> Path:
    """Return the first of `<path>.<suffix>-1`, `-2`, … that does not exist."""
    number = 1
    while (name := path.with_name(f"{path.name}.{suffix}-{number}")).exists():
        number += 1
    return name
