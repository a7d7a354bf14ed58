"""From what the driver lists of MIG to the place of each client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.doubles.fixtures import GpuMachine
from tests.doubles.nvml.machine import NO_PERMISSION, Card, Instance

_PLAN = """
import json, os, sys
from tune_farm.client.devices.granted import granted
from tune_farm.client.devices.gpus import list_gpus
from tune_farm.client.share.plan import GpuOffer, plan_gpu_slots
offers = [
    GpuOffer(uuid=place.uuid, total=place.instance.sm_count,
             memory_bytes=place.instance.memory_bytes, is_mig=True,
             slices=(place.instance.compute_slices, 7))
    for place in granted(list_gpus().gpus, os.environ).places
]
slots = plan_gpu_slots(offers, int(sys.argv[1]), None) if offers else ()
print(json.dumps([(slot.uuid, slot.asked_percent, slot.total) for slot in slots]))
"""
SEVEN = tuple(Instance(index=index, uuid=f"MIG-{index}", gi=7 + index) for index in range(7))
#: Created first, the 3g instance came to lie behind the 4g one.
PAIR = (
    Instance(index=0, uuid="MIG-4g", profile="4g.40gb", sms=64, slices=4, compute_slices=4, gi=1),
    Instance(index=1, uuid="MIG-3g", profile="3g.40gb", sms=60, slices=3, compute_slices=3, gi=2),
)
HOLES = (
    Instance(index=1, uuid="MIG-2g", profile="2g.20gb", sms=32, slices=2, compute_slices=2, gi=3),
    Instance(index=3, uuid="MIG-1g", gi=9),
    Instance(index=6, uuid="MIG-3g", profile="3g.40gb", sms=60, slices=3, compute_slices=3, gi=2),
)
#: In a container only what it was given has a name.
HIDDEN = (Instance(index=0, uuid=NO_PERMISSION), Instance(index=1, uuid="MIG-mine", gi=8))


def plan(machine: GpuMachine, percent: int, **environment: str) -> list[Any]:
    found: list[Any] = json.loads(machine.python(_PLAN, str(percent), **environment))
    return found


@pytest.mark.parametrize(
    ("instances", "clients"),
    [
        (SEVEN, [(f"MIG-{index}", 16) for index in range(7)]),
        (PAIR, [("MIG-4g", 64), ("MIG-3g", 60)]),
        (HOLES, [("MIG-2g", 32), ("MIG-1g", 16), ("MIG-3g", 60)]),
        (HIDDEN, [("MIG-mine", 16)]),
        ((), []),
    ],
    ids=["1g x 7", "3g and 4g", "mixed with holes", "no permission", "none created"],
)
def test_one_client_has_each_instance_to_itself(
    gpu_machine: GpuMachine, instances: tuple[Instance, ...], clients: list[tuple[str, int]]
) -> None:
    gpu_machine.cards(Card(uuid="GPU-a", mig_mode=1, memory=NO_PERMISSION, instances=instances))

    assert plan(gpu_machine, 100) == [[uuid, 100, sms] for uuid, sms in clients]


def test_below_the_whole_of_it_mps_divides_each_instance(gpu_machine: GpuMachine) -> None:
    gpu_machine.cards(Card(uuid="GPU-a", mig_mode=1, instances=HOLES))

    slots = plan(gpu_machine, 50)

    halves = [["MIG-2g", 50, 32], ["MIG-1g", 50, 16], ["MIG-3g", 50, 60]]
    assert slots == halves * 2


def test_of_two_gpus_only_the_granted_instance(gpu_machine: GpuMachine) -> None:
    gpu_machine.cards(
        Card(uuid="GPU-a", mig_mode=1, instances=PAIR), Card(uuid="GPU-b", mig_mode=1)
    )

    assert plan(gpu_machine, 100, CUDA_VISIBLE_DEVICES="MIG-3g") == [["MIG-3g", 100, 60]]
