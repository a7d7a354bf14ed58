"""Errors that end a command: each carries its exit code, its cause in one line, and the remedy."""

from __future__ import annotations


class TuneFarmError(Exception):
    """The root of every error a user may see.

    Args:
        cause: what went wrong, in one line.
        remedy: what the user can do about it, in one line; may be empty.
    """

    exit_code = 1

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[TuneFarmError], tuple[str, str]]:
        """Survive the trip out of another process."""
        return type(self), (self.cause, self.remedy)

    def __str__(self) -> str:
        return f"{self.cause}; {self.remedy}" if self.remedy else self.cause


class UsageError(TuneFarmError):
    """Bad arguments, configuration or model."""

    exit_code = 2


class EnvironmentUnusableError(TuneFarmError):
    """No device, no compiler, a share that is not in force, a full disk."""

    exit_code = 5


class RunDirectoryError(TuneFarmError):
    """The run directory is locked, or its records are not compatible."""

    exit_code = 6
