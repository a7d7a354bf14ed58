from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.bench_loop_overhead import Side, options_of, report_of
from benchmarks.report import Report, print_report, write_report
from benchmarks.watch import ProgramFailedError, watch


def report(**changes: object) -> Report:
    fields: dict[str, object] = {
        "claim": "ours is faster",
        "quick": True,
        "simulated": False,
        "results": {"throughput_ratio": 2.5},
        "rows": [{"side": "ours", "seconds": 1.0}, {"side": "theirs", "seconds": None}],
    }
    return Report(**(fields | changes))  # type: ignore[arg-type]


def printed(what: Report) -> str:
    text = io.StringIO()
    print_report(what, Console(file=text, width=200))
    return text.getvalue()


def test_the_file_has_the_agreed_form(tmp_path: Path) -> None:
    write_report(report(notes=["start-up counts"]), tmp_path / "out.json")

    document = json.loads((tmp_path / "out.json").read_text())
    assert set(document) >= {"claim", "quick", "simulated", "results", "rows", "environment"}
    assert document["results"] == {"throughput_ratio": 2.5}
    assert document["rows"][1] == {"side": "theirs", "seconds": None}
    assert document["quick"] is True
    environment = document["environment"]
    assert environment["cores"] >= 1
    assert environment["memory_bytes"] > 2**20
    assert environment["cpu"]
    assert environment["packages"]["apache-tvm"]
    assert list(tmp_path.iterdir()) == [tmp_path / "out.json"]


def test_a_number_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_report(report(results={"ratio": float("nan")}), tmp_path / "out.json")

    assert list(tmp_path.iterdir()) == []


def test_the_table_shows_rows_results_and_notes() -> None:
    text = printed(report(notes=["start-up counts"]))

    for words in ("ours is faster", "(quick)", "theirs", "throughput_ratio 2.5", "start-up counts"):
        assert words in text
    assert "SIMULATED" not in text


def test_what_is_simulated_says_so() -> None:
    assert "SIMULATED" in printed(report(simulated=True))


def test_loop_overhead_compares_the_same_clock() -> None:
    def side(name: str, measured: int, first: float, last: float, memory: int) -> Side:
        return Side(
            name=name,
            measured=measured,
            cut_short=False,
            first_seconds=first,
            last_seconds=last,
            peak_memory_bytes=memory,
        )

    ours, stock = side("ours", 31, 10.0, 40.0, 300), side("stock", 11, 50.0, 100.0, 200)
    results = report_of(ours, stock, options_of(True, 0), True).results

    assert results["throughput_ratio"] == pytest.approx((31 / 40) / (11 / 100))
    assert results["warm_throughput_ratio"] == pytest.approx(1.0 / 0.2)
    assert results["first_measurement_ratio"] == pytest.approx(0.2)
    assert results["peak_memory_ratio"] == pytest.approx(1.5)
    cut = replace(stock, cut_short=True)
    assert "warm_throughput_ratio" not in report_of(ours, cut, options_of(True, 0), True).results


def test_memory_of_children_is_seen() -> None:
    child = "import time; held = bytearray(b'x') * (80 << 20); time.sleep(3)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"

    seen = watch([sys.executable, "-c", parent], environment={}, timeout_seconds=60)

    assert seen.peak_memory_bytes > 80 << 20
    assert seen.seconds > 3


def test_a_program_that_fails_is_told_with_its_words() -> None:
    with pytest.raises(ProgramFailedError, match="no such luck"):
        watch(
            [sys.executable, "-c", "raise SystemExit('no such luck')"],
            environment={},
            timeout_seconds=60,
        )


def test_a_program_that_takes_too_long_is_ended_and_heard() -> None:
    seen = watch(
        [sys.executable, "-uc", "import time; print('so far'); time.sleep(60)"],
        environment={},
        timeout_seconds=3.0,
    )

    assert seen.timed_out
    assert seen.stdout == "so far\n"
    assert 3.0 <= seen.seconds < 30.0
