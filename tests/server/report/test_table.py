"""Tables show every number with its unit, and mark what is simulated or unfinished."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from tune_farm.server.report.summary import PredictorSummary, Summary
from tune_farm.server.report.table import print_summary


def show(summary: Summary, width: int = 140) -> str:
    file = io.StringIO()
    print_summary(Console(file=file, width=width), summary)
    return file.getvalue()


def test_tables(summary: Summary) -> None:
    text = show(summary)
    assert "resnet50 on Test CPU [a]" in text
    assert "dense[bold]|x" in text, "names are not taken for markup"
    assert "3.00 ms" in text
    assert "2.00 ms ± 10.0 µs" in text
    assert "1.50" in text
    assert text.index("conv2d_add") < text.index("dense"), "the largest saving first"
    assert "baseline: nothing faster found" in text
    assert "cores: 40 % asked, 4 of 8 cores granted" in text
    assert "70 measured, 5 over a limit, 6 predicted slow, 4 failed (3 build_error" in text
    assert "14.0 ms untuned, 10.0 ms tuned" in text
    assert "5 min 05 s" in text
    assert "nms: symbolic shape" in text
    assert "softmax: not selected" in text
    assert "build_error: undefined symbol" in text
    assert "SIMULATED" not in text


def test_every_table_is_marked(summary: Summary) -> None:
    text = show(replace(summary, simulated=True, exit_code=None, end_to_end=None))
    assert text.count("SIMULATED, UNFINISHED") == 2
    assert "not measured" in text
    assert "the run has not ended" in text


def test_wrong_output_is_loud(summary: Summary) -> None:
    assert summary.end_to_end is not None
    wrong = replace(summary.end_to_end, checked=False, wrong="off by 3", shipped="untuned")
    text = show(replace(summary, end_to_end=wrong))
    assert "the output is WRONG: off by 3; the untuned build is kept" in text


def test_an_unchecked_run_is_marked_in_every_table(summary: Summary) -> None:
    assert summary.end_to_end is not None
    unchecked = replace(summary.end_to_end, checked=False, max_relative_error=None)
    text = show(replace(summary, end_to_end=unchecked, checked=False))
    assert text.count("UNCHECKED") == 2
    assert "off: no output was compared" in text
    assert "14.0 ms untuned, 10.0 ms tuned (1.40 ×); output not checked" in text  # noqa: RUF001


def test_a_looser_check_says_so(summary: Summary) -> None:
    assert summary.end_to_end is not None
    shaky = replace(summary.end_to_end, max_relative_error=0.0022, rounding_error=0.009)
    text = " ".join(show(replace(summary, end_to_end=shaky)).split())
    assert "output checked: it differs by 0.22%, rounding alone moves it by 0.90%" in text


def test_predictor(summary: Summary) -> None:
    predictor = PredictorSummary(spearman=0.8, recall_at_keep=None, audited=9, regret=0.034)
    text = " ".join(show(replace(summary, predictor=predictor)).replace("│", " ").split())
    assert "rank correlation 0.80 of the measured, tau - of all drafts, recall -" in text
    assert "regret 3.4%, 9 audited" in text


def test_narrow_terminal_loses_no_number(summary: Summary) -> None:
    lines = show(summary, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert any("2.00 ms ± 10.0 µs" in line for line in lines)
