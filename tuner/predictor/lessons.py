"""What measurements taught about the law, in a form that other runs can learn from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One measured draft."""

    task_id: str
    features: tuple[float, ...]  # dimensionless, as the law's features are
    log2_error: float  # log2(measured / law)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """What one run learned on one device, under one share."""

    place: str  # device class and share: scales of its tasks hold for it alone
    lessons: tuple[Lesson, ...]
