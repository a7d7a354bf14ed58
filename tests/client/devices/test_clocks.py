from __future__ import annotations

import json

from tests.doubles.fixtures import GpuMachine
from tests.doubles.nvml.machine import Card
from tune_farm.client.devices.clocks import throttles
from tune_farm.tuner.types import Clocks

_TWICE = """
import dataclasses, json, sys
from tune_farm.client.devices.clocks import ClockReader
reader = ClockReader(sys.argv[1])
found = reader.read(), reader.read()
print(json.dumps([clocks and dataclasses.asdict(clocks) for clocks in found]))
"""


def test_a_reader_tells_the_clocks_whenever_it_is_asked(gpu_machine: GpuMachine) -> None:
    more: dict[str, int | str] = {"clock.sm": 1410, "clock.memory": 1593, "clock.reasons": 0x4}
    gpu_machine.cards(Card(uuid="GPU-a", more=more))

    first, second = json.loads(gpu_machine.python(_TWICE, "GPU-a"))

    assert first == {"sm_hertz": 1.41e9, "memory_hertz": 1.593e9, "events": ["power cap"]}
    assert second == first


def test_a_reader_without_a_device_or_a_driver_tells_nothing(gpu_machine: GpuMachine) -> None:
    assert json.loads(gpu_machine.python(_TWICE, "GPU-z")) == [None, None]
    assert json.loads(gpu_machine.python(_TWICE, "GPU-a", LD_LIBRARY_PATH="")) == [None, None]


def test_only_what_comes_and_goes_with_the_load_throttles() -> None:
    power, heat = "power cap", "thermal slowdown (hardware)"
    held = Clocks(sm_hertz=1e9, memory_hertz=None, events=("idle", power, heat, "reason 0x400"))
    hidden = Clocks(sm_hertz=None, memory_hertz=None, events=None)

    assert throttles(held) == (power, heat)
    assert throttles(hidden) == ()
