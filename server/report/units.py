"""Numbers for people: each with its unit."""

from __future__ import annotations


def format_seconds(seconds: float | None) -> str:
    """Return a time in the unit that fits it; "-" if there is none."""
    if seconds is None:
        return "-"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        # Just below the unit's one is still its one after rounding to three digits.
        if seconds >= scale * 0.9995:
            return f"{_three_digits(seconds / scale)} {unit}"
    return f"{_three_digits(seconds / 1e-9)} ns"


def format_spread(seconds: float | None, spread: float | None) -> str:
    """Return "12.3 µs ± 0.4 µs"."""
    if seconds is None or spread is None:
        return format_seconds(seconds)
    return f"{format_seconds(seconds)} ± {format_seconds(spread)}"


def format_gain(baseline: float | None, best: float | None) -> str:
    """Return how many times faster `best` is; "-" if either is missing."""
    if not baseline or not best:
        return "-"
    return f"{baseline / best:.2f} ×"  # noqa: RUF001 - a multiplication sign is meant


def format_duration(seconds: float) -> str:
    """Return a span of wall time: "47 s", "3 min 05 s", "2 h 07 min"."""
    whole = round(max(seconds, 0.0))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
