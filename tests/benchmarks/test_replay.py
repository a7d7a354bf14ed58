"""The replay's parts, and the benchmark as a whole on a space of a few hundred configurations."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from benchmarks import bench_replay_pruning
from benchmarks.bench_replay_pruning import report_of
from benchmarks.replay.devices import DEVICES
from benchmarks.replay.judge import RIVALS, Bill, Outcome, judge
from benchmarks.replay.search import Meter, Predictor, kept_of, run_search, search_ours
from benchmarks.replay.spaces import Space, load_space, space_of
from benchmarks.report import print_report

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "recorded"
NAMES = ("block_size_x", "block_size_y", "tile_size_x", "tile_size_y")
FIXED = {"read_only": 0, "use_padding": 0, "use_shmem": 0, "use_cmem": 1}


def recorded() -> dict[str, Any]:
    """A cache as Kernel Tuner writes it: 256 configurations, the large ones fail."""
    cache = {}
    sizes = ((16, 32, 64, 128), (1, 2, 4, 8), (1, 2, 3, 4), (1, 2, 3, 4))
    for values in itertools.product(*sizes):
        parameters = dict(zip(NAMES, values, strict=True)) | FIXED
        x, y, outputs = values[0], values[1], values[2] * values[3]
        time = 1.0 + 4.0 / outputs + abs(np.log2(x * y / 128.0)) + 0.3 * (values[2] == 3)
        failed = x * y * outputs > 8192
        cache[",".join(map(str, parameters.values()))] = {
            **parameters,
            "time": "RuntimeFailedConfig" if failed else time,
            "compile_time": 500.0,
            "verification_time": 0,
            "benchmark_time": 0.5 if failed else 100.0,
        }
    return {"tune_params_keys": [*NAMES, *FIXED], "cache": cache}


@pytest.fixture(scope="module")
def space() -> Space:
    return space_of("convolution_milo", "A4000", recorded())


def test_a_cache_becomes_arrays(space: Space) -> None:
    assert space.seconds.shape == (256,)
    assert space.best_seconds == pytest.approx(1.25e-3)
    assert 0 < int(np.isinf(space.seconds).sum()) < 50
    assert space.cost_seconds[np.isinf(space.seconds)][0] == pytest.approx(0.5005)
    assert space.parameters.shape == (256, 4)  # what never varies is no parameter
    assert np.isfinite(space.decisions).all()


def test_a_configuration_is_charged_once(space: Space) -> None:
    meter = Meter(space, limit=10)

    assert meter.measure(3) == meter.measure(3) == space.seconds[3]
    assert meter.charged_seconds == pytest.approx(float(space.cost_seconds[3]))


@pytest.mark.parametrize("name", ["ours", *RIVALS])
def test_every_search_keeps_to_its_budget_and_repeats_itself(space: Space, name: str) -> None:
    def run() -> list[int]:
        search = search_ours(Predictor(space)) if name == "ours" else RIVALS[name]
        return list(run_search(search, Meter(space, 24), seed=3).measured)

    assert len(run()) == 24
    assert run() == run()


@pytest.mark.parametrize("name", ["ours", "random", "genetic", "annealing"])
def test_every_search_ends_where_it_wanted_to(space: Space, name: str) -> None:
    search = search_ours(Predictor(space)) if name == "ours" else RIVALS[name]

    meter = run_search(search, Meter(space, 256, space.within(0.05)), seed=0)

    assert meter.is_hit
    assert list(meter.measured.values())[-1] <= 1.05 * space.best_seconds
    assert meter.charged_seconds == pytest.approx(
        float(space.cost_seconds[list(meter.measured)].sum())
    )


def test_what_was_not_measured_changes_nothing(space: Space) -> None:
    """No peeking: with other times of what was not measured, the same is searched and kept."""
    meter = Meter(space, 32)
    predictor = Predictor(space)
    run_search(search_ours(predictor), meter, seed=0)
    other = space.seconds.copy()
    hidden = np.setdiff1d(np.arange(len(other)), list(meter.measured))
    other[hidden] = np.random.default_rng(0).uniform(1e-3, 1e-2, len(hidden))
    fields = {name: getattr(space, name) for name in Space.__dataclass_fields__}
    elsewhere = Space(**(fields | {"seconds": other}))
    again_meter, again = Meter(elsewhere, 32), Predictor(elsewhere)
    run_search(search_ours(again), again_meter, seed=0)

    assert list(again_meter.measured) == list(meter.measured)
    assert kept_of(again, again_meter).tolist() == kept_of(predictor, meter).tolist()


def outcome(**changes: Any) -> Outcome:
    fields: dict[str, Any] = {
        "space": "gemm RTX_3090",
        "kernel": "gemm",
        "configurations": 1000,
        "recall": (1.0, 0.9),
        "kept_within_10": 1.0,
        "law_recall": 0.9,
        "yardsticks": {"xgb_64": 0.7, "xgb_256": 0.97},
        "ours": Bill(seconds=(10.0, 20.0), hits=(True, True)),
        "rivals": {
            "xgboost": Bill(seconds=(30.0, 30.0), hits=(True, True)),
            "annealing": Bill(seconds=(30.0, 30.0), hits=(True, True)),
            "genetic": Bill(seconds=(30.0, 30.0), hits=(True, True)),
            "random": Bill(seconds=(40.0, 10.0), hits=(True, False)),
        },
    }
    return Outcome(**(fields | changes))


def test_what_is_missed_is_said() -> None:
    report = report_of([outcome()], quick=True, seeds=2)

    assert report.results["gemm_recall"] == pytest.approx(0.95)
    assert report.results["gemm_recall_worst"] == pytest.approx(0.9)
    assert report.results["gemm_time_ratio"] == pytest.approx(15 / 25)
    words = "\n".join(report.notes)
    assert "recall 0.950 (worst 0.900) MISSES" in words
    assert "does NOT beat xgb_256" in words
    assert "does NOT beat xgb_64" not in words
    assert all(note.startswith("REPLAYED") for note in report.notes)


def test_a_search_that_did_not_get_there_is_marked() -> None:
    assert str(Bill(seconds=(40.0, 10.0), hits=(True, False))) == ">=25 (50%)"


def test_the_benchmark_prints_and_writes_that_it_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kernel_tuner_hub"
    folder.mkdir()
    with gzip.open(folder / "convolution_milo-A4000.json.gz", "wt") as file:
        json.dump(recorded(), file)
    chosen = [each for each in bench_replay_pruning.SPACES if each[1] == "A4000"]
    monkeypatch.setattr(bench_replay_pruning, "SPACES", chosen)
    out = tmp_path / "out.json"
    words = ["bench", "--data", str(tmp_path), "--quick", "--seeds", "1", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", words)

    bench_replay_pruning.main()

    document = json.loads(out.read_text())
    assert document["replayed"] is True
    assert document["conv_recall"] == document["results"]["conv_recall"]
    assert document["conv_time_ratio"] > 0.0
    assert document["rows"][0]["replayed_space"] == "convolution A4000"
    assert len(document["details"]["convolution A4000"]["ours"]["seconds"]) == 1
    lines = capsys.readouterr().out
    assert lines.count("REPLAYED") >= 5


def test_a_folder_without_spaces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="kernel_tuner_hub"):
        load_space(tmp_path, "gemm", "RTX_3090")


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no recorded spaces in {DATA}")
def test_of_a_recorded_space_the_best_are_kept() -> None:
    space = load_space(DATA, "convolution_milo", "A4000")

    found = judge(space, "convolution_milo", seeds=1, times=False)

    assert found.configurations == 4362
    assert found.recall[0] >= 0.9
    assert found.kept_within_10 == 1.0
    assert found.yardsticks["xgb_64"] < found.recall[0]


@pytest.mark.parametrize("device", DEVICES)
def test_devices_are_whole(device: str) -> None:
    assert DEVICES[device].sms == DEVICES[device].total_sms


def test_the_title_says_replayed() -> None:
    text = io.StringIO()
    print_report(report_of([outcome()], quick=True, seeds=1), Console(file=text, width=250))

    assert "REPLAYED: " in text.getvalue()
    assert "SIMULATED" not in text.getvalue()
