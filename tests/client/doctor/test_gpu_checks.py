from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.doubles.fixtures import GpuMachine
from tests.doubles.nvml.machine import Card, Instance

GPU = "GPU-11111111-1111-1111-1111-111111111111"
MIG = "MIG-22222222-2222-2222-2222-222222222222"
_CHECK = """
import json, os, sys
from tune_farm.client.doctor.gpu_checks import gpu_checks
rows = [(check.name, check.status.value, check.detail, check.remedy)
        for check in gpu_checks(os.environ, full=True)]
print(json.dumps(rows))
"""


def shares(machine: GpuMachine, **environment: str) -> list[tuple[str, str, str]]:
    """Status, detail and remedy of the trials of shares."""
    rows = json.loads(machine.python(_CHECK, **environment))
    return [tuple(row[1:]) for row in rows if row[0].startswith("share of")]


def test_half_of_a_gpu_is_proven_and_nothing_stays(gpu_machine: GpuMachine) -> None:
    ((status, detail, remedy),) = shares(gpu_machine)

    assert (status, remedy) == ("ok", "")
    assert detail == "50% gives 66 of 132 SMs, proven by a client of a daemon of its own"
    assert not gpu_machine.mps_processes()


def test_a_share_of_a_mig_instance_is_proven_too(gpu_machine: GpuMachine) -> None:
    gpu_machine.mps(sms=16)
    instance = Instance(index=0, uuid=MIG, sms=16)
    gpu_machine.cards(Card(uuid=GPU, mig_mode=1, instances=(instance,)))

    ((status, detail, _),) = shares(gpu_machine)

    assert status == "ok", detail
    assert "8 of 16 SMs" in detail


def test_only_what_was_granted_is_tried(gpu_machine: GpuMachine) -> None:
    gpu_machine.cards(Card(uuid=GPU), Card(uuid="GPU-other"))

    assert len(shares(gpu_machine, CUDA_VISIBLE_DEVICES="0")) == 1
    assert shares(gpu_machine, CUDA_VISIBLE_DEVICES="") == []


@pytest.mark.parametrize(
    ("knobs", "cause"),
    [
        ({"lie": {"get_client_list": "99999\n"}}, "is no client of the MPS daemon"),
        ({"chosen": {"50": 132}}, "132 of 132 SMs"),
        ({"uid": 4242}, "SERVER_NOT_READY"),
        ({"limit": 0}, "MAX_CLIENTS_REACHED"),
        ({"stillborn": "MPS is not supported"}, "MPS is not supported"),
        ({"hang": ["get_server_list"]}, "did not answer"),
    ],
    ids=["lies", "not in force", "other user", "full", "stillborn", "hangs"],
)
def test_what_is_wrong_is_told_in_time_with_its_remedy(
    gpu_machine: GpuMachine, knobs: dict[str, object], cause: str
) -> None:
    gpu_machine.mps(**knobs)
    started = time.monotonic()

    ((status, detail, remedy),) = shares(gpu_machine)

    assert status == "failed"
    assert cause in detail
    assert remedy
    assert time.monotonic() - started < 20


def test_a_gpu_that_somebody_holds_alone(gpu_machine: GpuMachine) -> None:
    path = Path(os.environ["NVML_DOUBLE"])
    path.write_text(path.read_text() + "cuda.init 46\n")

    ((status, detail, remedy),) = shares(gpu_machine)

    assert status == "failed"
    assert "(46)" in detail
    assert "compute mode" in remedy


_NOTES = """
import json, os
from tune_farm.client.doctor.gpu_checks import gpu_checks
print(json.dumps([(check.name, check.status.value, check.detail, check.remedy)
                  for check in gpu_checks(os.environ, full=False)]))
"""


def notes(machine: GpuMachine) -> dict[str, tuple[str, str, str]]:
    """What is said of the GPU itself."""
    rows = json.loads(machine.python(_NOTES))
    return {row[0]: tuple(row[1:]) for row in rows if row[0].startswith("cuda:0")}


def test_what_disturbs_timings_is_noted_with_its_remedy(gpu_machine: GpuMachine) -> None:
    nobody = 1 << 22  # above the largest number that Linux gives a process
    clocks: dict[str, int | str] = {"clock.sm": 1200, "clock.sm.most": 1980, "clock.reasons": 0x25}
    memory: dict[str, int | str] = {"ecc": 1, "ecc.corrected": 9, "ecc.uncorrected": 3}
    card = Card(uuid=GPU, processes=f"{nobody}:-", more={**clocks, **memory})
    gpu_machine.cards(card)

    found = notes(gpu_machine)

    held = "held down by power cap and thermal slowdown (software): 1200 of 1980 MHz"
    assert [row[:2] for row in found.values()] == [
        ("note", f"1 of others compute there: {nobody}"),
        ("note", held),
        ("note", "3 uncorrectable memory errors since the driver was loaded"),
    ]
    assert all(remedy for _, _, remedy in found.values())


def test_a_calm_gpu_has_no_notes(gpu_machine: GpuMachine) -> None:
    calm: dict[str, int | str] = {"clock.reasons": 0x1, "ecc": 1, "ecc.uncorrected": 0}
    gpu_machine.cards(Card(uuid=GPU, more=calm))

    assert notes(gpu_machine) == {}
