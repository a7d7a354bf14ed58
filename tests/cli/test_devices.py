from __future__ import annotations

import csv
import io
import json

import pytest
from click.testing import CliRunner, Result

from tune_farm.cli import main
from tune_farm.client.devices import inventory
from tune_farm.client.devices.gpus import Gpu, GpuListing
from tune_farm.tuner.types import Device, DeviceClass

CPU = Device(
    device_class=DeviceClass(
        kind="cpu", name="AMD EPYC", total=2, memory_bytes=24 << 30, architecture="znver3"
    ),
    uuid="CPU-1",
    host="here",
    driver="Linux 6",
)
GPU = Gpu(
    index=0,
    uuid="GPU-1",
    name="NVIDIA H200",
    driver="580.65",
    sm_count=132,
    memory_bytes=141 << 30,
    compute_capability="9.0",
    mig_enabled=True,
    instances=(),
    compute_mode=0,
    pids=(),
)


@pytest.fixture(autouse=True)
def cpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "cpu_device", lambda: CPU)
    monkeypatch.setattr(
        inventory, "list_gpus", lambda: GpuListing(gpus=(), reason="no NVIDIA driver found")
    )


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "list_gpus", lambda: GpuListing(gpus=(GPU,), reason=""))


def listed(form: str) -> Result:
    return CliRunner().invoke(main, ["devices", "--format", form])


def test_the_table_names_the_cpu_and_why_there_is_no_gpu() -> None:
    lines = listed("table").stdout.splitlines()

    assert [word in lines[1] for word in ("AMD EPYC", "24.0 GiB", "znver3")] == [True] * 3
    assert lines[-1] == "GPUs: none (no NVIDIA driver found)"


def test_json_is_one_document() -> None:
    document = json.loads(listed("json").stdout)

    assert document["no_gpu_reason"] == "no NVIDIA driver found"
    assert document["devices"][0]["core_count"] == 2
    assert document["devices"][0]["memory_bytes"] == 24 << 30


@pytest.mark.usefixtures("one_gpu")
def test_csv_has_one_line_a_device() -> None:
    rows = list(csv.DictReader(io.StringIO(listed("csv").stdout)))

    assert [(row["id"], row["sm_count"]) for row in rows] == [("cpu", ""), ("cuda:0", "132")]
    assert rows[1]["mps"] in ("no control command", "no daemon")
    assert rows[1]["mig"] == "on, no instance created"


@pytest.mark.usefixtures("one_gpu")
def test_with_a_gpu_nothing_is_missing() -> None:
    table = listed("table").stdout
    assert "GPUs: none" not in table
    assert table.splitlines()[-1].startswith("SMs: utilization")
    assert json.loads(listed("json").stdout)["no_gpu_reason"] is None
