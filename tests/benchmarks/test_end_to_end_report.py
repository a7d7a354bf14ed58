from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.bench_end_to_end import budget_of, costliest, ratios, rows_of, torch_commands

SECONDS = {
    "tune-farm": [0.2, 0.1, 0.3],
    "onnxruntime": [0.1, 0.1, 0.1],
    "PyTorch eager": [0.4, 0.4, 0.4],
}


def task(name: str, seconds: float | None, state: str = "tuned") -> dict[str, Any]:
    return {"name": name, "weight": 2, "best_seconds": seconds, "state": state}


def test_ours_is_divided_by_each_rival() -> None:
    found = ratios("bert-base", SECONDS)

    assert found["bert_base_latency_ratio"] == pytest.approx(2.0)
    assert found["bert_base_pytorch_eager_latency_ratio"] == pytest.approx(0.5)
    assert len(found) == 2


def test_untuned_is_a_row_only_where_it_was_timed() -> None:
    timed = rows_of("resnet50", SECONDS, {"end_to_end": {"baseline_seconds": 1.0}})
    not_timed = rows_of("resnet50", SECONDS, {"end_to_end": None})

    assert [row["times_onnxruntime"] for row in timed] == [2.0, 1.0, 4.0, 10.0]
    assert not_timed[-1]["median_ms"] is None


def test_the_costliest_operators_are_those_that_ship() -> None:
    tasks = [task("small", 1e-3), task("large", 3e-3), task("slow twin", 9e-3, "unused")]

    assert costliest({"tasks": [*tasks, task("unmeasured", None)]}) == (
        "large 2 calls of 3.00 ms, small 2 calls of 1.00 ms"
    )


@pytest.mark.parametrize(
    ("text", "says"), [("budget_seconds = 600.0\n", "600 s"), ("seed = 0\n", "no limit of time")]
)
def test_a_run_says_what_it_was_given(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "config.toml").write_text(text)

    assert budget_of(tmp_path) == says


def test_pytorch_runs_in_the_interpreter_that_was_named() -> None:
    for side, command in torch_commands("/other/python", "resnet50").items():
        assert side.startswith("PyTorch ")
        assert command[0] == "/other/python"
        assert command[-1] == "resnet50"
