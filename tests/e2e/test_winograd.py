"""A run tunes a convolution in two ways and ships the one that it measured to be the faster."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Command, outcomes
from tests.e2e.tiny_model import write_convolution

pytestmark = [pytest.mark.slow, pytest.mark.ray]

LIMITS = ("--clients", "1", "--trials-per-task", "4", "--format", "json")


def seconds(tasks: list[dict[str, Any]], variant: str) -> float:
    """What a variant's operators take together, each as it would ship."""
    rows = [task for task in tasks if task["variant"] == variant]
    assert rows
    return math.fsum(min(row["baseline_seconds"], row["best_seconds"]) for row in rows)


def test_the_faster_variant_ships_and_resuming_keeps_it(tmp_path: Path) -> None:
    model, out = write_convolution(tmp_path / "convolution.onnx"), tmp_path / "out"
    with Command("run", model, *LIMITS, "--out", out, cwd=tmp_path) as run:
        assert run.wait() == 0, run.stderr
        summary = json.loads(run.stdout)
    tasks = summary["tasks"]

    names = {task["variant"] for task in tasks} - {""}
    assert names > {"direct"}
    totals = {name: seconds(tasks, name) for name in names}
    fastest = min(totals, key=lambda name: totals[name])
    used = {task["variant"] for task in tasks if task["variant"] and task["state"] != "unused"}
    assert used == {fastest}
    assert summary["end_to_end"]["checked"] is True
    module = (out / "model.tvm.json").read_text()
    assert ("winograd_output" in module) is (fastest != "direct")
    shipped = {json.loads(line)[0] for line in _records(out)}
    tuned = [task for task in tasks if task["state"] == "tuned"]
    assert len(shipped) == len(tuned)

    before = outcomes(out)
    with Command("run", model, *LIMITS, "--out", out, "--resume", cwd=tmp_path) as again:
        assert again.wait() == 0, again.stderr
        states = {task["id"]: task["state"] for task in json.loads(again.stdout)["tasks"]}
    assert outcomes(out) == before
    assert states == {task["id"]: task["state"] for task in tasks}


def _records(out: Path) -> list[str]:
    return (out / "database_tuning_record.json").read_text().splitlines()
