"""The whole farm on a GPU that does not exist: four clients, a quarter each."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.fixtures import GpuMachine
from tests.doubles.nvml.machine import Card, Instance
from tests.e2e.command import ROOT, Command, outcomes

pytestmark = [pytest.mark.slow, pytest.mark.ray]

QUARTERS = ("--device", "sim:h100", "--sm-share", "25", "--trials-per-task", "4")


def test_four_clients_tune_a_quarter_each(
    gpu_machine: GpuMachine, tiny_model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with Command(
        "run", tiny_model, *QUARTERS, "--format", "json", "--out", out, cwd=tmp_path
    ) as run:
        assert run.wait() == 0, run.stderr
        summary = json.loads(run.stdout)
        assert "SIMULATED: tuning for sim:h100" in run.stderr

    assert summary["simulated"] is True
    assert summary["clients"] == 4
    assert summary["share"] == {"kind": "mps", "percent": 25, "granted": 32, "total": 132}
    assert summary["end_to_end"] is None
    header, *records = map(json.loads, (out / "records.jsonl").read_text().splitlines())
    assert header["device_class"]["name"] == "SIMULATED H100"
    measured = [record for record in records if record["outcome"] == "measured"]
    assert measured
    for record in measured:
        assert record["share"] == {"kind": "mps", "asked_percent": 25, "granted": 32, "total": 132}
        assert record["device"]["uuid"] == "sim:h100"
        assert record["corunners"] == (0 if record["purpose"] == "final" else 3)
    # Plain TVM would take made-up times for measurements.
    assert (out / "database_tuning_record.json").read_text() == ""
    with Command("report", out, cwd=tmp_path) as report:
        assert report.wait() == 0
        assert "SIMULATED" in report.stdout


def test_a_fault_taints_what_the_neighbors_measured_and_nothing_of_it_stays(
    gpu_machine: GpuMachine, tiny_model: Path, tmp_path: Path
) -> None:
    text = (ROOT / "configs" / "sim" / "h100.toml").read_text()
    faulty = tmp_path / "faulty.toml"
    faulty.write_text(text.replace("fault-rate = 0.0 ", "fault-rate = 0.4 "))
    out = tmp_path / "out"
    options = ("--device", f"sim:{faulty}", "--sm-share", "25", "--trials-per-task", "10")
    with Command("run", tiny_model, *options, "--out", out, cwd=tmp_path) as run:
        assert run.wait() == 0, run.stderr

    attempts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in outcomes(out):
        attempts.setdefault((row["candidate"], row["purpose"]), []).append(row)
    faults = [row for rows in attempts.values() for row in rows if row["fault"] == "illegal_access"]
    assert faults
    told = [row for rows in attempts.values() for row in rows if row["fault"] == "contended"]
    assert told, "with so many faults some came while a neighbor measured"
    for rows in attempts.values():
        last = max(rows, key=lambda row: row["attempt"])
        assert last["fault"] in (None, "illegal_access"), rows
        # Who seemed to fault was tried once more, alone.
        assert len(rows) <= 2
    for row in (row for rows in attempts.values() for row in rows):
        if row["outcome"] != "measured" or row["purpose"] == "final":
            continue
        end, start = row["time"], row["time"] - row["stage_seconds"]["measure"]
        assert not [
            fault
            for fault in faults
            if fault["client"] != row["client"] and start < fault["time"] - 0.05 < end - 0.1
        ]


def test_devices_and_doctor_tell_of_a_node_with_mig(
    gpu_machine: GpuMachine, tmp_path: Path
) -> None:
    instances = (
        Instance(index=0, uuid="MIG-4g", profile="4g.40gb", sms=64, slices=4),
        Instance(index=3, uuid="MIG-3g", profile="3g.40gb", sms=60, slices=3),
    )
    gpu_machine.cards(
        Card(uuid="GPU-a", processes="41:1024"),
        Card(uuid="GPU-b", mig_mode=1, instances=instances),
        Card(uuid="GPU-c", mig_mode=1, compute_mode=2),
    )
    granted = {"CUDA_VISIBLE_DEVICES": "0,MIG-3g"}
    with Command("devices", "--format", "csv", cwd=tmp_path, environment=granted) as command:
        assert command.wait() == 0, command.stderr
        rows = list(csv.DictReader(io.StringIO(command.stdout)))

    assert [(row["uuid"], row["sm_count"], row["granted"]) for row in rows[1:]] == [
        ("GPU-a", "132", "True"),
        ("GPU-b", "132", "False"),
        ("MIG-4g", "64", "False"),
        ("MIG-3g", "60", "True"),
        ("GPU-c", "132", "False"),
    ]
    assert [row["mig"] for row in rows[1:]] == [
        "off",
        "on: 2 instances",
        "4g.40gb (4 slices)",
        "3g.40gb (3 slices)",
        "on, no instance created",
    ]
    with Command("doctor", "--format", "json", cwd=tmp_path) as command:
        command.wait()
        checks = {check["name"]: check for check in json.loads(command.stdout)["checks"]}
    assert "41" in checks["cuda:0 processes"]["detail"]
    assert "no instance is created" in checks["cuda:2 MIG"]["detail"]
    assert "PROHIBITED" in checks["cuda:2 mode"]["detail"]
    assert checks["MPS"]["status"] == "note"
