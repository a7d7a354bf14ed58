from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.doubles.fixtures import GpuMachine
from tests.doubles.nvml.machine import NO_PERMISSION, Card, Instance
from tune_farm.client.devices.health import Neighbour, foreign

_READ = """
import dataclasses, json, sys
from tune_farm.client.devices.health import read_health
health = read_health(sys.argv[1])
print(json.dumps(health and dataclasses.asdict(health)))
"""
CLOCKS: dict[str, int | str] = {
    "clock.sm": 1200,
    "clock.sm.most": 1980,
    "clock.memory": 2619,
    "clock.memory.most": 2619,
}
NOBODY = 1 << 22  # above the largest number that Linux gives a process


def health_of(machine: GpuMachine, uuid: str = "GPU-a", **environment: str) -> dict[str, Any]:
    """What the product reads, through the real pynvml."""
    found: dict[str, Any] = json.loads(machine.python(_READ, uuid, **environment))
    return found


def test_a_gpu_that_tells_all(gpu_machine: GpuMachine) -> None:
    ecc: dict[str, int | str] = {"ecc": 1, "ecc.corrected": 5, "ecc.uncorrected": 2}
    events = 0x1 | 0x4 | 0x40 | 0x400
    gpu_machine.cards(Card(uuid="GPU-a", more={**CLOCKS, **ecc, "clock.reasons": events}))

    health = health_of(gpu_machine)

    assert (health["clocks"]["sm_hertz"], health["most_sm_hertz"]) == (1.2e9, 1.98e9)
    assert (health["clocks"]["memory_hertz"], health["most_memory_hertz"]) == (2.619e9, 2.619e9)
    assert (health["ecc_enabled"], health["ecc_corrected"], health["ecc_uncorrected"]) == (
        True,
        5,
        2,
    )
    power, heat = "power cap", "thermal slowdown (hardware)"
    assert health["clocks"]["events"] == ["idle", power, heat, "reason 0x400"]
    assert health["neighbours"] == []


def test_what_a_gpu_hides_is_unknown(gpu_machine: GpuMachine) -> None:
    hidden: dict[str, int | str] = dict.fromkeys((*CLOCKS, "clock.reasons"), NO_PERMISSION)
    gpu_machine.cards(Card(uuid="GPU-a", processes=NO_PERMISSION, more=hidden))

    health = health_of(gpu_machine)

    assert health.pop("clocks") == {"sm_hertz": None, "memory_hertz": None, "events": None}
    assert set(health.values()) == {None}


def test_an_instance_has_its_gpus_clocks_and_its_own_neighbours(gpu_machine: GpuMachine) -> None:
    card = Card(
        uuid="GPU-a",
        mig_mode=1,
        instances=(Instance(index=0, uuid="MIG-a"), Instance(index=1, uuid="MIG-b", gi=8)),
        more={**CLOCKS, "clock.reasons": 0x20, "mig.1.processes": f"{NOBODY}:-"},
    )
    gpu_machine.cards(card)

    first, second = health_of(gpu_machine, "MIG-a"), health_of(gpu_machine, "MIG-b")

    assert first["clocks"] == second["clocks"]
    assert first["clocks"]["sm_hertz"] == 1.2e9
    assert first["clocks"]["events"] == ["thermal slowdown (software)"]
    assert first["neighbours"] == []
    assert second["neighbours"] == [{"pid": NOBODY, "name": ""}]


def test_no_such_device_and_no_driver(gpu_machine: GpuMachine) -> None:
    assert health_of(gpu_machine, "GPU-z") is None
    assert health_of(gpu_machine, LD_LIBRARY_PATH="") is None


@pytest.fixture
def processes() -> Iterator[list[int]]:
    """A stranger, an MPS server, one of the same run, one of another run."""
    nap = ["3600"]
    begun = [
        subprocess.Popen(["stranger", *nap], executable="/bin/sleep"),
        subprocess.Popen(["nvidia-cuda-mps-server", *nap], executable="/bin/sleep"),
        subprocess.Popen(
            ["friend", *nap], executable="/bin/sleep", env={**os.environ, "TUNE_FARM_RUN": "run-7"}
        ),
        subprocess.Popen(
            ["rival", *nap], executable="/bin/sleep", env={**os.environ, "TUNE_FARM_RUN": "run-8"}
        ),
    ]
    yield [process.pid for process in begun]
    for process in begun:
        process.kill()
        process.wait()


def test_neighbours_are_neither_of_this_run_nor_mps_itself(
    gpu_machine: GpuMachine, processes: list[int]
) -> None:
    stranger, server, friend, rival = processes
    computing = " ".join(f"{pid}:-" for pid in (stranger, server, friend))
    card = Card(uuid="GPU-a", processes=computing, mps_processes=f"{friend}:- {rival}:1024")
    gpu_machine.cards(card)

    neighbours = health_of(gpu_machine, TUNE_FARM_RUN="run-7")["neighbours"]

    assert sorted((each["name"], each["pid"]) for each in neighbours) == [
        ("rival", rival),
        ("stranger", stranger),
    ]


def test_what_descends_from_this_process_is_its_own() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        found = foreign([os.getpid(), child.pid, NOBODY])
        child.kill()

    assert found == (Neighbour(pid=NOBODY, name=""),)
    assert str(found[0]) == str(NOBODY)
    assert str(Neighbour(pid=7, name="python")) == "7 (python)"
