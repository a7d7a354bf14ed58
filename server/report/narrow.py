"""Tables on narrow terminals: whole columns go, and names get shorter, before a number is cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

#: Columns that can be missed, the most easily first.
_DROPPED = ("weight", "trials", "state", "baseline", "gain")
#: Characters around a cell: its border and a blank on both sides; the table has one border more.
_AROUND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a table of a given width has room for."""

    columns: tuple[str, ...]  # beside the names
    name: int  # characters of a name


def room_of(width: int, columns: Mapping[str, int], *, least: int) -> Room:
    """Drop columns until names have room.

    Args:
        width: of the terminal, characters.
        columns: width of each column beside the names, by title.
        least: characters that a name needs.
    """
    kept = dict(columns)
    for title in (*_DROPPED, ""):
        name = width - 1 - _AROUND - sum(size + _AROUND for size in kept.values())
        if name >= least:
            break
        kept.pop(title, None)
    return Room(columns=tuple(kept), name=max(1, name))


def shorten(name: str, width: int) -> str:
    """Leave out the middle: operators of one kind differ at the end, in their shapes."""
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A table that is made when the width it gets is known."""

    make: Callable[[int], Table]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.make(options.max_width)
