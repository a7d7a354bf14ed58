"""A real model is built twice, compared and timed in pairs; what does not build says which."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.tuner.operators import TARGET_JSON
from tune_farm.client.messages import ModelFiles, ModelJob
from tune_farm.client.share.slot import Slot
from tune_farm.client.whole_model.agreement import Agreement
from tune_farm.client.whole_model.compare import (
    ModelDoesNotBuildError,
    PairedRepeats,
    compare_whole_model,
)
from tune_farm.tuner.measure.guard import NoGuard
from tune_farm.tuner.types import Share

CORE = min(os.sched_getaffinity(0))
SLOT = Slot(
    name="client-0",
    measure_cores=(CORE,),
    build_cores=(CORE,),
    share=Share(kind="cores", asked_percent=50, granted=1, total=2),
)


@pytest.fixture
def job(tmp_path: Path) -> ModelJob:
    """One dense layer, and a database without a single schedule."""
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((2, 16), "float32"))
    weight = relax.Var("weight", relax.TensorType((16, 8), "float32"))
    with builder.function("main", [data, weight]):
        with builder.dataflow():
            product = builder.emit(relax.op.nn.relu(relax.op.matmul(data, weight)))
            result = builder.emit_output(product)
        builder.emit_func_output(result)
    (tmp_path / "model.json").write_text(tvm.ir.save_json(builder.get()))
    np.savez(tmp_path / "weights.npz", np.ones((16, 8), "float32"))
    for name in ("workloads.json", "records.json"):
        (tmp_path / name).touch()
    files = ModelFiles(module=str(tmp_path / "model.json"), weights=str(tmp_path / "weights.npz"))
    return ModelJob(
        given=files,
        tuned=files,
        database_workload=str(tmp_path / "workloads.json"),
        database_records=str(tmp_path / "records.json"),
        inputs=(((2, 16), "float32"),),
        target_json=TARGET_JSON,
    )


@pytest.mark.slow
def test_both_builds_are_run_in_pairs_and_agree(job: ModelJob, tmp_path: Path) -> None:
    comparison = compare_whole_model(
        job,
        slot=SLOT,
        guard=NoGuard(),
        scratch=tmp_path,
        repeats=PairedRepeats(least=2, most=4, seconds=60.0),
    )

    assert comparison.agreement == Agreement(
        wrong=None, max_relative_error=0.0, rounding_error=None
    )
    assert len(comparison.baseline_seconds) == len(comparison.tuned_seconds) == 4
    assert all(0 < each < 1 for each in comparison.baseline_seconds + comparison.tuned_seconds)
    assert not list(tmp_path.glob("*.so"))


@pytest.mark.slow
def test_unchecked_builds_are_timed_all_the_same(job: ModelJob, tmp_path: Path) -> None:
    repeats = PairedRepeats(least=1, most=1)
    comparison = compare_whole_model(
        job, slot=SLOT, guard=NoGuard(), scratch=tmp_path, repeats=repeats, checks=False
    )

    assert comparison.agreement is None
    assert len(comparison.tuned_seconds) == 1


def test_a_model_that_does_not_build_says_which_and_why(job: ModelJob, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("no module")

    with pytest.raises(ModelDoesNotBuildError, match=r"the untuned model does not build: \w+Error"):
        compare_whole_model(
            replace(job, given=replace(job.given, module=str(broken))),
            slot=SLOT,
            guard=NoGuard(),
            scratch=tmp_path,
            repeats=PairedRepeats(),
        )
