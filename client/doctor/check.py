"""One line of `doctor`."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Status(enum.Enum):
    """How a check ended."""

    OK = "ok"
    FAILED = "failed"
    NOTE = "note"  # nothing that tuning for this CPU needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of `doctor`."""

    name: str
    status: Status
    detail: str
    remedy: str = ""
