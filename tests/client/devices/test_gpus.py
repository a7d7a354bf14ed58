from __future__ import annotations

import json
from typing import Any

import pytest

from tests.doubles.fixtures import GpuMachine
from tests.doubles.nvml.machine import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    Card,
    Instance,
)

_LIST = """
import dataclasses, json
from tune_farm.client.devices.gpus import list_gpus
print(json.dumps(dataclasses.asdict(list_gpus())))
"""


def listing(machine: GpuMachine, **environment: str) -> dict[str, Any]:
    """What the product lists, through the real pynvml."""
    found: dict[str, Any] = json.loads(machine.python(_LIST, **environment))
    return found


def test_a_gpu_that_tells_all(gpu_machine: GpuMachine) -> None:
    gpu_machine.cards(Card(uuid="GPU-a", processes="41:1024 42:-", compute_mode=3))

    (gpu,) = listing(gpu_machine)["gpus"]

    assert (gpu["sm_count"], gpu["memory_bytes"], gpu["compute_capability"]) == (
        132,
        80 << 30,
        "9.0",
    )
    assert (gpu["driver"], gpu["compute_mode"], gpu["pids"]) == ("580.65.06", 3, [41, 42])
    assert gpu["mig_enabled"] is False


def test_what_a_gpu_hides_is_unknown_and_hides_no_other(gpu_machine: GpuMachine) -> None:
    silent = Card(
        uuid="GPU-b",
        cores=NOT_SUPPORTED,
        memory=NO_PERMISSION,
        mig_mode=NOT_SUPPORTED,
        compute_mode=NO_PERMISSION,
        processes=NO_PERMISSION,
    )
    gpu_machine.cards(Card(uuid="GPU-a", handle=GPU_IS_LOST), silent, Card(uuid="GPU-c"))

    second, third = listing(gpu_machine)["gpus"]

    assert (second["index"], second["uuid"]) == (1, "GPU-b")
    for name in ("sm_count", "memory_bytes", "mig_enabled", "compute_mode"):
        assert second[name] is None
    assert second["pids"] == []
    assert third["sm_count"] == 132


def test_an_unknown_generation_has_no_sm_count(gpu_machine: GpuMachine) -> None:
    gpu_machine.cards(Card(uuid="GPU-a", capability="99.0"))

    assert listing(gpu_machine)["gpus"][0]["sm_count"] is None


@pytest.mark.parametrize(
    ("init", "reason"), [(DRIVER_NOT_LOADED, "no NVIDIA driver found"), ("!18", "does not answer")]
)
def test_no_driver_is_a_reason_not_an_error(
    gpu_machine: GpuMachine, init: str, reason: str
) -> None:
    gpu_machine.cards(init=init)

    found = listing(gpu_machine)

    assert found["gpus"] == []
    assert reason in found["reason"]


def test_no_library_is_no_driver(gpu_machine: GpuMachine) -> None:
    assert listing(gpu_machine, LD_LIBRARY_PATH="")["reason"] == "no NVIDIA driver found"


SEVEN = tuple(Instance(index=index, uuid=f"MIG-{index}", gi=7 + index) for index in range(7))
#: Created first, the 3g instance came to lie behind the 4g one.
MIXED = (
    Instance(index=0, uuid="MIG-4g", profile="4g.40gb", sms=64, slices=4, compute_slices=4, gi=1),
    Instance(index=3, uuid="MIG-3g", profile="3g.40gb", sms=60, slices=3, compute_slices=3, gi=2),
)


@pytest.mark.parametrize(
    ("instances", "sms"),
    [(SEVEN, [16] * 7), (MIXED, [64, 60]), ((), [])],
    ids=["1g x 7", "3g and 4g with a hole", "none created"],
)
def test_mig_instances(
    gpu_machine: GpuMachine, instances: tuple[Instance, ...], sms: list[int]
) -> None:
    gpu_machine.cards(Card(uuid="GPU-a", mig_mode=1, instances=instances))

    (gpu,) = listing(gpu_machine)["gpus"]

    assert gpu["mig_enabled"] is True
    assert [each["sm_count"] for each in gpu["instances"]] == sms
    assert [each["uuid"] for each in gpu["instances"]] == [each.uuid for each in instances]
    for told, made in zip(gpu["instances"], instances, strict=True):
        assert (told["profile"], told["gpu_slices"]) == (made.profile, made.slices)
        assert told["memory_bytes"] == made.memory_mb << 20


def test_in_a_container_for_mig_alone_the_gpu_hides_its_memory(gpu_machine: GpuMachine) -> None:
    card = Card(uuid="GPU-a", mig_mode=1, memory=NO_PERMISSION, instances=MIXED)
    gpu_machine.cards(card)

    (gpu,) = listing(gpu_machine)["gpus"]

    assert gpu["memory_bytes"] is None
    assert all(each["memory_bytes"] for each in gpu["instances"])
