"""A session with the NVIDIA driver's management library, and answers that it may refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pynvml

_Value = TypeVar("_Value")


class NoDriverError(Exception):
    """The driver can't be asked; the text is the reason, for people."""


@contextmanager
def session() -> Iterator[None]:
    """Ask the driver within; handles are good for no longer.

    Raises:
        NoDriverError: there is no driver, or it does not answer.
    """
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        raise NoDriverError("no NVIDIA driver found") from None
    except pynvml.NVMLError as error:
        raise NoDriverError(f"the NVIDIA driver does not answer: {error}") from None
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def told(ask: Callable[..., _Value], *arguments: object) -> _Value | None:
    """The answer, or None where this GPU, driver or user has none to get."""
    try:
        return ask(*arguments)
    except pynvml.NVMLError:
        return None
