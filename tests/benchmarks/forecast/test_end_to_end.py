"""The judge of whole models, on a few made-up labels."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from benchmarks.forecast.end_to_end import LABELS, results_of, rows_of, score
from tests.sharding.graphs.rooflines import Roofline
from tune_farm.sharding.compose import forecast
from tune_farm.sharding.graphs.operator import Wanted
from tune_farm.sharding.graphs.registry import graph_of
from tune_farm.tuner.predictor.forecast.catalogue import chip_of

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "neusight"
A100, H100 = "NVIDIA A100-PCIE-40GB", "NVIDIA H100 80GB HBM3"


def label(gpu: str, **other: object) -> dict[str, object]:
    return {
        "device": gpu,
        "graph": "bert_large-inf-512-8",
        "model": "bert_large",
        "mode": "inf",
        "seq": 512,
        "batch": 8,
        "option": "",
        "n_layer": 24,
        "e2e_ms": 100.0,
        "perop_sum_fw_ms": 110.0,
        "perop_sum_bw_ms": "",
        "neusight_e2e_ms": 120.0,
        "roofline_e2e_ms": 80.0,
        "habitat_e2e_ms": 50.0,
        "micro_e2e_ms": "",
        "gpu_role": "train_gpu" if gpu == A100 else "heldout",
        "label_flag": "ok",
        **other,
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [
        label(A100),
        label(H100, e2e_ms=50.0, roofline_e2e_ms=50.0),
        label(H100, e2e_ms=50.0, label_flag="fw_inconsistent"),
        label(H100, option="fusion", habitat_e2e_ms="", roofline_e2e_ms=""),
        label(H100, model="gpt2_large", mode="train", batch=4, option="dp4"),
        label(H100, model="gpt2_large", mode="train", batch=4, option="tp4"),
        label(H100, model="gpt2_large", mode="train", batch=4, option="pp4_1"),
        label(H100, model="switch4", graph="switch4-inf-512-1"),
    ]
    with (tmp_path / LABELS).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return tmp_path


def test_cells_are_forecast_and_the_rest_is_named(data: Path) -> None:
    cells, left_out = score(data, Roofline())

    assert left_out == [f"{H100} switch4-inf-512-1: no graph of switch4"]
    assert [cell.option for cell in cells] == ["", "", "", "fusion", "dp4", "tp4", "pp4_1"]
    graph = graph_of("bert-large", Wanted(batch=8, sequence=512))
    expected = forecast(graph, chip_of("a100"), Roofline()).seconds
    assert cells[0].predicted["ours"] == pytest.approx(expected)
    assert cells[0].error("neusight") == pytest.approx(0.2)
    assert cells[0].error("li") is None
    assert cells[0].kernel_seconds == pytest.approx(0.110)
    assert cells[3].predicted["ours"] < cells[2].predicted["ours"]


def test_the_constant_comes_from_train_gpus_alone(data: Path) -> None:
    cells, _ = score(data, Roofline())
    assert cells[0].predicted["roofline_constant"] == pytest.approx(0.100)
    assert cells[1].predicted["roofline_constant"] == pytest.approx(0.0625)
    assert cells[1].error("roofline_constant") == pytest.approx(0.25)


def test_some_gpus_can_be_chosen(data: Path) -> None:
    cells, left_out = score(data, Roofline(), {A100})
    assert (len(cells), left_out) == (1, [])


def test_results_count_single_gpus_without_options(data: Path) -> None:
    cells, _ = score(data, Roofline())
    results = results_of(cells)
    assert results["heldout_e2e_error_roofline"] == pytest.approx((0.0 + 0.6) / 2)
    sound = [cell for cell in cells[1:3] if not cell.is_doubtful]
    assert results["heldout_e2e_worst_sound"] == pytest.approx(sound[0].error("ours"))
    assert 0 <= results["heldout_e2e_coverage"] <= 1


def test_the_table_has_groups_with_equal_columns(data: Path) -> None:
    cells, _ = score(data, Roofline())
    rows = rows_of(cells)
    names = [row["cells"] for row in rows]
    assert f"GPU {H100} *" in names
    assert f"GPU {A100}" in names
    assert {"inference", "held-out GPUs", "doubtful labels", "option dp4"} <= set(names)
    assert all(row.keys() == rows[0].keys() for row in rows)
    assert [row["n"] for row in rows if row["cells"] == "held-out GPUs"] == [2]


@pytest.mark.skipif(not (DATA / LABELS).is_file(), reason=f"{DATA} is not there")
def test_every_measured_model_but_the_small_switch_has_a_graph() -> None:
    cells, left_out = score(DATA, Roofline(), {"Tesla V100-PCIE-32GB", "NVIDIA A100-PCIE-40GB"})
    assert len(cells) >= 25
    assert left_out == []
    # Kernels at their peaks, and what stands between them, are faster than any measured model.
    assert all(cell.deviation < 0 for cell in cells)
