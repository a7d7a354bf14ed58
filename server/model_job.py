"""What it takes to build and run the whole model, as files on a disk that clients see, too."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tune_farm.client.messages import ModelFiles, ModelJob
from tune_farm.server.preparation import Prepared
from tune_farm.server.run_directory import MODEL, TUNING_RECORDS, WORKLOADS
from tune_farm.server.tvm_export import export_database
from tune_farm.sharding.lower import LoweredModel
from tune_farm.tuner.records.durable import write_atomically
from tune_farm.tuner.types import Record


def make_job(
    prepared: Prepared, directory: Path, temp_dir: Path, best: Iterable[Record]
) -> ModelJob:
    """Write what the client needs that compares the tuned model with the untuned one.

    Args:
        prepared: the model in both forms, variants chosen.
        directory: of the run; its module and its TVM database are written anew.
        temp_dir: for what nobody needs afterwards.
        best: the schedule of each task that gained.
    """
    export_database(directory, prepared.tasks, best)
    write_atomically(directory / MODEL, prepared.module_json)
    tuned = ModelFiles(
        module=str((directory / MODEL).resolve()),
        weights=_write_weights(prepared.lowered, temp_dir / "tuned.npz"),
    )
    given = tuned
    if prepared.baseline is not prepared.lowered:
        module = temp_dir / "given.tvm.json"
        module.write_text(prepared.baseline_json)
        weights = _write_weights(prepared.baseline, temp_dir / "given.npz")
        given = ModelFiles(module=str(module), weights=weights)
    return ModelJob(
        given=given,
        tuned=tuned,
        database_workload=str((directory / WORKLOADS).resolve()),
        database_records=str((directory / TUNING_RECORDS).resolve()),
        inputs=prepared.inputs,
        target_json=prepared.target_json,
        rounding=prepared.rounding,
    )


def _write_weights(lowered: LoweredModel, path: Path) -> str:
    """Write a model's weights as an .npz, in the order of the trailing parameters."""
    np.savez(path, *lowered.weights)
    return str(path)
