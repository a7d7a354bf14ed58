from __future__ import annotations

import json

from tests.doubles.fixtures import GpuMachine
from tests.doubles.nvml.machine import Card

_ENVIRONMENT = """
import json
from tune_farm.server.provenance import environment
from tune_farm.tuner.types import Device, DeviceClass

def device(kind, uuid):
    own = DeviceClass(kind=kind, name="it", total=1, memory_bytes=1 << 30, architecture="x")
    return Device(device_class=own, uuid=uuid, host="here", driver="1")

devices = device("cuda", "GPU-a"), device("cuda", "GPU-none"), device("cpu", "GPU-a")
print(json.dumps([environment(each, memory={})["health"] for each in devices]))
"""


def test_the_state_of_a_gpu_as_the_run_begins_is_kept(gpu_machine: GpuMachine) -> None:
    more: dict[str, int | str] = {"clock.sm": 1755, "clock.reasons": 0x4, "ecc.uncorrected": 1}
    gpu_machine.cards(Card(uuid="GPU-a", more=more))

    gpu, other, cpu = json.loads(gpu_machine.python(_ENVIRONMENT))

    clocks = gpu["clocks"]
    assert (clocks["sm_hertz"], clocks["events"]) == (1.755e9, ["power cap"])
    assert (gpu["ecc_uncorrected"], gpu["neighbours"]) == (1, [])
    assert (other, cpu) == (None, None)
