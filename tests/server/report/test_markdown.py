"""Markdown shows the same as the terminal, and names do not break its tables."""

from __future__ import annotations

from dataclasses import replace

from tune_farm.server.report.markdown import to_markdown
from tune_farm.server.report.summary import Summary


def test_markdown(summary: Summary) -> None:
    text = to_markdown(summary)
    assert text.startswith("# resnet50 on Test CPU \\[a\\]\n")
    row = next(line for line in text.splitlines() if line.startswith("| conv2d\\_add"))
    assert "| 4 | 64 | 3.00 ms | 2.00 ms ± 10.0 µs | 1.50" in row
    assert row.endswith("| tuned |")
    assert "dense\\[bold\\]\\|x" in text
    assert "| **share** | cores: 40 % asked, 4 of 8 cores granted |" in text
    assert text.endswith("|\n")


def test_markdown_is_marked(summary: Summary) -> None:
    text = to_markdown(replace(summary, simulated=True))
    assert "# resnet50 on Test CPU \\[a\\] (SIMULATED)\n" in text
    assert "## Tasks (SIMULATED)\n" in text
