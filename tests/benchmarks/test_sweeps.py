"""Sweeps: recorded with the real compiler and runtime, stored, searched again, judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.bench_pruning import Outcome, report_of
from benchmarks.sweeps.judge import Verdict, best_part, judge
from benchmarks.sweeps.record import Recorder
from benchmarks.sweeps.search import Ours, roofline_seconds, trees_seconds
from benchmarks.sweeps.sweep import Sweep, load, save
from tests.tuner.operators import matmul, task_of
from tune_farm.client.devices.cpu import usable_cores
from tune_farm.tuner.strategy.draft import DraftOptions

DRAFTS = 30


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    recorder = Recorder(usable_cores()[:1], tmp_path_factory.mktemp("sweep"), "test machine")
    try:
        return recorder.record(task_of(matmul(64, 64, 64)), DRAFTS)
    finally:
        recorder.close()


def with_truth(sweep: Sweep, seconds: list[float], rounds: list[list[float]]) -> Sweep:
    """The sweep with other times; the first drafts are the finalists."""
    return replace(
        sweep,
        plots=np.zeros(len(seconds), dtype=np.int64),
        genes=np.resize(sweep.genes, (len(seconds), sweep.genes.shape[1])),
        seconds=np.array(seconds),
        finalists=np.arange(len(rounds)),
        final_seconds=np.array(rounds),
    )


def test_a_recorded_sweep_is_of_distinct_drafts_that_ran(sweep: Sweep) -> None:
    rows = np.column_stack([sweep.plots, sweep.genes])
    assert len(np.unique(rows, axis=0)) == DRAFTS
    assert np.isfinite(sweep.seconds).sum() > DRAFTS / 2
    assert len(sweep.finalists) == 3
    assert (sweep.final_seconds > 0).all()
    assert set(np.argsort(sweep.seconds)[:3]) == set(sweep.finalists)
    assert sweep.truth.argmin() in sweep.finalists


def test_what_is_stored_is_what_is_read(sweep: Sweep, tmp_path: Path) -> None:
    save(sweep, tmp_path / "one.npz")
    again = load(tmp_path / "one.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["one.npz"]
    assert (again.task, again.cpu, again.machine) == (sweep.task, sweep.cpu, "test machine")
    np.testing.assert_array_equal(again.genes, sweep.genes)
    np.testing.assert_allclose(again.truth, sweep.truth, rtol=1e-6)


def test_genes_of_other_sketches_are_refused(sweep: Sweep) -> None:
    with pytest.raises(ValueError, match="record it again"):
        replace(sweep, sketches=("another", *sweep.sketches[1:])).open_space()


def test_ours_keeps_its_part_with_what_it_measured_counted_in(sweep: Sweep) -> None:
    search = Ours(sweep, DraftOptions(machine=sweep.cpu))
    search.search(20, seed=0)
    assert len(search.measured) == 20
    kept = search.kept()
    assert len(kept) == round(0.2 * DRAFTS)
    slowest_known = max(search.measured, key=lambda row: search.measured[row])
    assert slowest_known not in kept


def test_yardsticks_rank_every_draft(sweep: Sweep) -> None:
    assert np.isfinite(roofline_seconds(sweep)).all()
    trees = trees_seconds(sweep, 20, seed=0)
    assert trees.shape == (DRAFTS,)
    assert len(best_part(trees, 0.2)) == round(0.2 * DRAFTS)


def test_what_noise_cannot_tell_apart_counts_as_good(sweep: Sweep) -> None:
    # The top 1% of 200 is two. The first is surely in it; three take as long as the second.
    noisy = [[value, value * 1.01] for value in (1.0, 2.0, 2.001, 2.002)]
    judged = with_truth(sweep, [1.0, 2.0, 2.0, 2.0, *np.linspace(3, 9, 196)], noisy)
    assert judge(judged, np.array([0, 2])) == Verdict(recall=1.0, regret=0.0)
    assert judge(judged, np.array([1, 2, 3])).recall == 0.5
    assert judge(judged, np.array([1, 2, 3])).regret == pytest.approx(1.0, rel=1e-3)
    assert judge(judged, np.array([0, 100])).recall == 0.5


def test_what_failed_is_in_no_top(sweep: Sweep) -> None:
    judged = with_truth(sweep, [1.0, 2.0, *[np.inf] * 98], [[1.0, 1.0], [2.0, 2.0]])
    assert judge(judged, np.array([0])).recall == 1.0
    assert judge(judged, np.array([1])).recall == 0.0


def test_the_report_names_the_worst(sweep: Sweep) -> None:
    good, bad = Verdict(recall=1.0, regret=0.0), Verdict(recall=0.5, regret=0.2)
    outcomes = [
        Outcome(name="one", sweep=sweep, law=bad, ours=(each,), roofline=bad, trees=(bad,))
        for each in (good, bad)
    ]
    results = report_of(outcomes, quick=True).results
    assert results["recall"] == 0.75
    assert results["worst_recall"] == 0.5
    assert results["regret"] == 0.2
    assert results["regret_beyond_noise"] == 0.2
    assert results["xgb_256_recall"] == 0.5


def test_a_regret_that_noise_explains_is_a_tie(sweep: Sweep) -> None:
    loud = with_truth(sweep, [1.0] * 100, [[1.0, 3.0], [2.0, 4.0]])
    near = Verdict(recall=1.0, regret=0.2)
    outcome = Outcome(name="one", sweep=loud, law=near, ours=(near,), roofline=near, trees=(near,))
    results = report_of([outcome], quick=True).results
    assert loud.noise > 0.2
    assert (results["regret"], results["regret_beyond_noise"]) == (0.2, 0.0)
