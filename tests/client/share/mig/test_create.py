from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.fixtures import GpuMachine
from tests.doubles.nvml.machine import (
    H100_PROFILES,
    IN_USE,
    INSUFFICIENT_RESOURCES,
    NO_PERMISSION,
    NOT_SUPPORTED,
    Card,
    Instance,
)
from tests.tuner.waiting import happens

GPU = "GPU-11111111-1111-1111-1111-111111111111"
OLD = Instance(index=0, uuid="MIG-old", gi=5, start=0)
#: The product through the real pynvml; `within` is what happens while the instances are there, and
#: `between` what does between choosing and creating. What it prints is one JSON document.
_RUN = """
import json, logging, os, subprocess, sys
from pathlib import Path
from tune_farm.client.devices.gpus import list_gpus
from tune_farm.client.share.mig import create, kept
from tune_farm.client.share.mig.capacity import read_capacity
from tune_farm.client.share.mig.geometry import choose_named
from tune_farm.tuner.errors import TuneFarmError

LIST = "from tune_farm.client.devices.gpus import list_gpus;" \\
    "print(*(each.uuid for gpu in list_gpus().gpus for each in gpu.instances))"
machine = Path(os.environ["NVML_DOUBLE"])
gpu, names, between, within = sys.argv[1:]
told = {"warnings": []}
warn = logging.Handler()
warn.emit = lambda record: told["warnings"].append(record.getMessage())
logging.getLogger().addHandler(warn)

class Interrupt(BaseException):
    pass

def add(line):
    with machine.open("a") as file:
        file.write(line + chr(10))

def replace(old, new):
    fresh = machine.with_suffix(".other")
    fresh.write_text(machine.read_text().replace(old, new))
    fresh.replace(machine)

try:
    geometry = choose_named(read_capacity(gpu), names.split(","))
    exec(between)
    with kept.created(geometry, machine.parent) as places:
        told["made"] = [(place.name, place.instance.sm_count, place.instance.gpu_slices,
                         place.instance.compute_slices) for place in places]
        told["seen"] = subprocess.run([sys.executable, "-c", LIST], stdout=subprocess.PIPE,
                                      text=True, check=True).stdout.split()
        told["uuids"] = [place.uuid for place in places]
        exec(within)
except TuneFarmError as error:
    told |= {"cause": error.cause, "remedy": error.remedy, "exit": error.exit_code}
except Interrupt:
    told["interrupted"] = True
told["left"] = [each.uuid for gpu in list_gpus().gpus for each in gpu.instances]
print(json.dumps(told))
"""


def card(*instances: Instance, **more: Any) -> Card:
    values: dict[str, Any] = {"mig_mode": 1, "instances": instances, "profiles": H100_PROFILES}
    return Card(uuid=GPU, **values | more)


def run(machine: GpuMachine, names: str, *, between: str = "", within: str = "") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(machine.python(_RUN, GPU, names, between, within))
    return found


def done(machine: GpuMachine) -> list[str]:
    """What was created and destroyed, in this order."""
    path = Path(f"{machine.folder / 'machine'}.log")
    return path.read_text().splitlines() if path.exists() else []


def test_instances_are_there_for_others_to_see_and_gone_after(gpu_machine: GpuMachine) -> None:
    gpu_machine.cards(card(OLD))

    told = run(gpu_machine, "1g.10gb,3g.40gb")

    assert told["made"] == [
        ["NVIDIA H100 80GB HBM3 MIG 3g.40gb", 60, 3, 3],
        ["NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16, 1, 1],
    ]
    assert sorted(told["seen"]) == sorted(["MIG-old", *told["uuids"]])
    assert (told["left"], told["warnings"]) == (["MIG-old"], [])
    made = ["create gi 1", "create ci 1/0", "create gi 2", "create ci 2/0"]
    gone = ["destroy ci 2/0", "destroy gi 2", "destroy ci 1/0", "destroy gi 1"]
    assert done(gpu_machine) == made + gone


def test_an_interrupt_leaves_no_instance(gpu_machine: GpuMachine) -> None:
    gpu_machine.cards(card())

    told = run(gpu_machine, "7g.80gb", within="raise Interrupt")

    assert (told["interrupted"], told["left"]) == (True, [])
    assert done(gpu_machine)[-1] == "destroy gi 1"


def test_where_the_second_of_three_fails_the_first_goes_and_no_other(
    gpu_machine: GpuMachine,
) -> None:
    gpu_machine.cards(card(OLD))
    somebody = (
        "start = geometry.parts[1].placement.start\n"
        "for line in ('profile_id 19', f'start {start}', 'size 1'): add('gpu.0.gi.40.' + line)"
    )

    told = run(gpu_machine, "3g.40gb,2g.20gb,1g.10gb", between=somebody)

    assert "no room for 2g.20gb at memory slices 2-3" in told["cause"]
    assert told["exit"] == 5
    assert done(gpu_machine) == [
        "create gi 1",
        "create ci 1/0",
        "destroy ci 1/0",
        "destroy gi 1",
    ]
    assert told["left"] == ["MIG-old"]
    assert "gpu.0.gi.40.start" in (gpu_machine.folder / "machine").read_text()


def test_a_gpu_instance_without_its_compute_instance_goes_too(gpu_machine: GpuMachine) -> None:
    gpu_machine.cards(card(more={"mig.create_ci": INSUFFICIENT_RESOURCES}))

    told = run(gpu_machine, "3g.40gb")

    assert told["cause"].startswith("the NVIDIA driver refuses work on the MIG instances of GPU-")
    assert done(gpu_machine) == ["create gi 1", "destroy gi 1"]


@pytest.mark.parametrize(
    ("more", "cause", "remedy"),
    [
        ({"mig_mode": 0}, "is not in MIG mode, and tune-farm never switches it", "-mig 1"),
        ({"mig_mode": 0, "more": {"mig_mode_pending": 1}}, "not yet in force", "--gpu-reset"),
        ({"mig_mode": NOT_SUPPORTED}, "knows no MIG mode", "leave out --create-mig"),
        ({"profiles": ()}, "names no MIG profile", "update the driver"),
        ({"more": {"mig.read": NO_PERMISSION}}, "this user may not create", "mig/config"),
        ({"mig_create": NO_PERMISSION}, "this user may not create", "run as root"),
        ({"instances": (Instance(index=0, uuid="MIG-7", profile="7g.80gb", start=0),)},
         "beside 1 MIG instance already there: of each alone there is room for 0 x 1g.10gb",
         "nvidia-smi mig -lgi"),
    ],
    ids=["off", "pending", "no MIG", "no profile", "may not read", "may not create", "full"],
)  # fmt: skip
def test_what_stands_against_it_is_told_and_nothing_is_changed(
    gpu_machine: GpuMachine, more: dict[str, Any], cause: str, remedy: str
) -> None:
    gpu_machine.cards(card(**more))
    before = (gpu_machine.folder / "machine").read_text()

    told = run(gpu_machine, "1g.10gb")

    assert cause in told["cause"]
    assert remedy in told["remedy"]
    assert told["exit"] == 5
    assert "\n" not in told["cause"] + told["remedy"]
    assert (gpu_machine.folder / "machine").read_text() == before


def test_no_driver(gpu_machine: GpuMachine) -> None:
    gpu_machine.cards(init="!9")

    assert run(gpu_machine, "1g.10gb")["cause"] == "no NVIDIA driver found"


def test_another_gpu(gpu_machine: GpuMachine) -> None:
    gpu_machine.cards(Card(uuid="GPU-2"))

    assert "is no GPU of this machine" in run(gpu_machine, "1g.10gb")["cause"]


def test_what_has_our_number_meanwhile_is_not_ours(gpu_machine: GpuMachine) -> None:
    gpu_machine.cards(card())
    another = "replace('gpu.0.gi.1.profile_id 9', 'gpu.0.gi.1.profile_id 5')"

    told = run(gpu_machine, "3g.40gb", within=another)

    assert told["left"] == told["uuids"]
    assert told["warnings"] == []
    assert not [line for line in done(gpu_machine) if line.startswith("destroy")]


def test_an_instance_whose_user_has_just_ended_is_waited_for(gpu_machine: GpuMachine) -> None:
    gpu_machine.cards(card())
    busy = (
        f"add('gpu.0.mig.destroy {IN_USE}')\n"
        "import threading\n"
        f"threading.Timer(0.3, lambda: replace('gpu.0.mig.destroy {IN_USE}', '')).start()"
    )

    told = run(gpu_machine, "1g.10gb", within=busy)

    assert (told["left"], told["warnings"]) == ([], [])


@pytest.mark.parametrize(
    "refusal", [f"gpu.0.mig.destroy {IN_USE}", f"gpu.0.mig.read {NO_PERMISSION}"]
)
def test_an_instance_that_stays_is_told_with_the_command(
    gpu_machine: GpuMachine, refusal: str
) -> None:
    gpu_machine.cards(card())

    told = run(gpu_machine, "1g.10gb", within=f"create._BUSY_SECONDS = 0.2\nadd({refusal!r})")

    assert told["left"] == told["uuids"]
    (warning,) = told["warnings"]
    assert (
        f"nvidia-smi mig -i {GPU} -dci -gi 1 -ci 0 && nvidia-smi mig -i {GPU} -dgi -gi 1" in warning
    )


def test_what_a_killed_process_left_is_destroyed_by_another(gpu_machine: GpuMachine) -> None:
    gpu_machine.cards(card(OLD))
    within = (
        "subprocess.Popen([sys.executable, '-c', 'from tune_farm.client.share.mig.kept import "
        "destroy_left; import sys; from pathlib import Path; sys.stdin.read(); "
        "destroy_left(Path(sys.argv[1]))', str(machine.parent)], stdin=subprocess.PIPE); "
        "os.kill(os.getpid(), 9)"
    )
    process = gpu_machine.start(_RUN, GPU, "1g.10gb,1g.10gb", "", within)
    assert process.wait(60) == -9

    assert happens(lambda: not (gpu_machine.folder / "mig-instances.json").exists(), 30)
    assert [line.split()[0] for line in done(gpu_machine)] == ["create"] * 4 + ["destroy"] * 4
