"""Each number is shown with the unit that fits it."""

from __future__ import annotations

import pytest

from tune_farm.server.report.units import (
    format_duration,
    format_gain,
    format_seconds,
    format_spread,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0.00 ns"),
        (3.21e-9, "3.21 ns"),
        (12.345e-6, "12.3 µs"),
        (0.9999e-3, "1.00 ms"),
        (123.4e-3, "123 ms"),
        (0.99996, "1.00 s"),
        (99.96, "100 s"),
        (1234.0, "1234 s"),
    ],
)
def test_seconds(seconds: float | None, text: str) -> None:
    assert format_seconds(seconds) == text


def test_spread() -> None:
    assert format_spread(1e-3, 2e-6) == "1.00 ms ± 2.00 µs"
    assert format_spread(1e-3, None) == "1.00 ms"
    assert format_spread(None, 1.0) == "-"


def test_gain() -> None:
    assert format_gain(3.0, 2.0) == "1.50 ×"  # noqa: RUF001 - a multiplication sign is meant
    assert format_gain(None, 2.0) == format_gain(3.0, None) == "-"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1.0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (7625, "2 h 07 min"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
