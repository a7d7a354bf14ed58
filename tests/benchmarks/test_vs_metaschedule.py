from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.bench_vs_metaschedule import Side, database_total, ratios, result_reached

STOCK = Side(
    name="TVM tune_tasks", seconds=1000.0, measured=100, last_seconds=900.0, curve=((1000.0, 4.0),)
)
OURS = Side(
    name="tune-farm",
    seconds=600.0,
    measured=900,
    last_seconds=450.0,
    curve=((50.0, 8.0), (100.0, 4.0), (200.0, 2.0)),
)


def test_operators_are_compared_by_their_sums() -> None:
    reached = result_reached(STOCK, OURS, None)

    assert reached == 100.0
    assert ratios(STOCK, OURS, None, reached) == pytest.approx(
        {"time_ratio": 0.1, "throughput_ratio": 18.0, "latency_ratio": 2.0}
    )


def test_models_are_compared_by_what_they_take() -> None:
    # Our model takes twice what its operators do: TVM's 16 are ours where the sum is 8.
    reached = result_reached(STOCK, OURS, (16.0, 4.0))

    assert reached == 50.0
    assert ratios(STOCK, OURS, (16.0, 4.0), reached)["latency_ratio"] == 4.0


def test_what_was_never_reached_counts_as_the_whole_run() -> None:
    reached = result_reached(STOCK, OURS, (1.0, 4.0))

    assert reached is None
    assert ratios(STOCK, OURS, (1.0, 4.0), reached)["time_ratio"] == 0.6


def test_operators_of_which_tvm_measured_nothing_are_left_out(tmp_path: Path) -> None:
    workloads = [["a", "…"], ["b", "…"]]
    records = [
        [0, [[], [0.5, 0.7], {}, []]],
        [0, [[], [0.2, 0.4], {}, []]],
        [1, [[], [1e10], {}, []]],
    ]
    for name, lines in (("workload", workloads), ("tuning_record", records)):
        text = "\n".join(json.dumps(line) for line in lines)
        (tmp_path / f"database_{name}.json").write_text(text)

    assert database_total(tmp_path, {"a": 10, "b": 1}) == pytest.approx(3.0)
