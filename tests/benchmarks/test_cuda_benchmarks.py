"""The CUDA benchmarks' reports: the names that checks look for, and what counts as what."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import bench_cuda_candidates, bench_draft_legality
from benchmarks.bench_cuda_candidates import Ours
from benchmarks.bench_draft_legality import Verdict
from benchmarks.stock_cuda_candidates import Outcome


def verdict(**changes: object) -> Verdict:
    fields: dict[str, object] = {
        "target": "cuda sm_90a",
        "task": "matmul",
        "drawn": 4096,
        "drafts": 100,
        "accepted": 99,
        "compared": 10,
        "not_lowered": 0,
        "mismatches": 0,
        "seconds": 1.0,
    }
    return Verdict(**(fields | changes))  # type: ignore[arg-type]


def test_legality_counts_drafts_not_tasks() -> None:
    verdicts = [verdict(), verdict(drafts=300, accepted=291, mismatches=2)]

    report = bench_draft_legality.report_of(verdicts, quick=True)

    assert report.results["accepted_fraction"] == pytest.approx(390 / 400)
    assert report.results["lowest_accepted_fraction"] == pytest.approx(0.97)
    assert report.results["mismatches"] == 2
    assert len(report.rows) == 2


def test_speed_leaves_out_what_is_paid_once() -> None:
    ours = Ours(
        built=40,
        refused=Counter(pruned_static=3),
        import_seconds=10.0,
        draw_seconds=4.0,
        seconds=20.0,
    )
    stock = Outcome(
        built=8,
        failed=0,
        import_seconds=40.0,
        search_seconds=20.0,
        build_seconds=40.0,
        start_seconds=30.0,
    )

    report = bench_cuda_candidates.report_of(ours, stock, 90_000.0, [], quick=False)

    assert stock.seconds == 30.0
    assert report.results["speedup"] == pytest.approx(2.0 / (8 / 30))
    assert report.results["speedup_with_worker_starts"] == pytest.approx(2.0 / (8 / 60))
    assert report.results["speedup_with_imports"] == pytest.approx((40 / 30) / (8 / 100))
    assert report.results["drafts_per_second"] == 90_000.0
