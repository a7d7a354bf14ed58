"""GPUs are asked, divided, and each share is proven; against doubles, where TVM finds no device."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.client.share.mps.test_daemon import PLACE, UUID
from tests.doubles.fixtures import GpuMachine
from tests.doubles.nvml.machine import Card, Instance
from tune_farm.client.devices.gpus import MigInstance
from tune_farm.client.devices.granted import GpuPlace, places_of
from tune_farm.client.share import open_gpus as opening
from tune_farm.client.share.mps.control import BINARY, Control
from tune_farm.client.share.mps.errors import MpsError, MpsProblem
from tune_farm.client.share.open_gpus import OpenGpus, Percent, Wanted, open_gpus
from tune_farm.tuner.errors import EnvironmentUnusableError, UsageError

MIG = [f"MIG-{digit * 8}-{digit * 4}-{digit * 4}-{digit * 4}-{digit * 12}" for digit in "abc"]


@pytest.fixture(autouse=True)
def tvm_finds_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs a driver that runs kernels."""
    monkeypatch.setattr(opening, "require_runtime", lambda seat, folder: None)


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="tf-test-", dir="/tmp") as folder:
        yield Path(folder)


def instance(uuid: str, at: int, sms: int = 16, slices: int = 1) -> MigInstance:
    return MigInstance(
        uuid=uuid,
        index=at,
        profile=f"{slices}g.{10 * slices}gb",
        sm_count=sms,
        memory_bytes=9856 << 20,
        gpu_slices=slices,
        compute_slices=slices,
        gpu_instance=at,
        compute_instance=0,
    )


def cards(machine: GpuMachine, *instances: MigInstance) -> list[GpuPlace]:
    """A GPU with instances, as the driver and as its inventory tell it; the instances' places."""
    told = tuple(
        Instance(index=each.index, uuid=each.uuid, profile=each.profile, sms=each.sm_count or 0)
        for each in instances
    )
    machine.cards(Card(uuid=UUID, mig_mode=1, instances=told))
    gpu = replace(PLACE.gpu, mig_enabled=True, instances=instances)
    return list(places_of(gpu))


@contextmanager
def opened(
    percent: Percent,
    *,
    places: Sequence[GpuPlace] = (PLACE,),
    clients: int | None = None,
    oversubscribes: bool = False,
    in_partitions: bool = False,
    root: Path | None = None,
    **environment: str,
) -> Iterator[OpenGpus]:
    told = {**os.environ, **environment}
    wanted = Wanted(
        percent=percent,
        clients=clients,
        oversubscribes=oversubscribes,
        in_partitions=in_partitions,
    )
    with open_gpus(places, wanted, cores=(0, 1), environment=told, root=root) as gpus:
        yield gpus


def daemons() -> list[psutil.Process]:
    """Of this test's machine."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("MPS_DOUBLE") == os.environ["MPS_DOUBLE"]
            if ours and process.pid != os.getpid() and process.cmdline()[:1] == [BINARY]:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_four_clients_have_a_quarter_each(gpu_machine: GpuMachine, root: Path) -> None:
    with opened(25, root=root) as gpus:
        assert [slot.name for slot in gpus.slots] == [f"client-{number}" for number in range(4)]
        for slot in gpus.slots:
            assert (slot.share.kind, slot.share.asked_percent) == ("mps", 25)
            assert (slot.share.granted, slot.share.total) == (32, 132)
            assert slot.gpu == UUID
            assert slot.seat is not None
            born = dict(slot.seat.environment)
            assert born["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
            assert born["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"0={20 << 10}M"
        assert gpus.device.uuid == UUID
        assert gpus.device.device_class.total == 132
        assert gpus.device.device_class.architecture == "9.0"
        assert (gpus.machine.sms, gpus.machine.total_sms) == (32, 132)
        assert gpus.machine.dram_bytes_per_second == pytest.approx(3.35e12, rel=0.01)
        assert len(daemons()) == 1
    assert not daemons()
    assert not list(root.iterdir())


def test_an_undivided_gpu_needs_no_daemon(gpu_machine: GpuMachine) -> None:
    (gpu_machine.folder / "bin" / BINARY).unlink()
    with opened(100) as gpus:
        (slot,) = gpus.slots
        assert (slot.share.kind, slot.share.granted) == ("whole", 132)
        assert slot.seat is not None
        assert slot.seat.control is None


@pytest.mark.parametrize(
    ("percent", "kind", "clients", "sms"), [(100, "mig", 3, 16), (50, "mps", 6, 8)]
)
def test_clients_land_on_each_instance(
    gpu_machine: GpuMachine, percent: int, kind: str, clients: int, sms: int
) -> None:
    gpu_machine.mps(sms=16)
    found = cards(gpu_machine, *(instance(uuid, 2 * at) for at, uuid in enumerate(MIG)))

    with opened(percent, places=found) as gpus:
        places = [slot.gpu for slot in gpus.slots]
        assert len(places) == clients
        assert {places.count(uuid) for uuid in MIG} == {clients // 3}
        assert {slot.share.kind for slot in gpus.slots} == {kind}
        assert {slot.share.granted for slot in gpus.slots} == {sms}
        assert gpus.device.device_class.name == "NVIDIA H100 MIG 1g.10gb"


def test_instances_of_different_sizes_are_not_tuned_on_together(gpu_machine: GpuMachine) -> None:
    found = cards(gpu_machine, instance(MIG[0], 0, 64, 4), instance(MIG[1], 1, 60, 3))

    with pytest.raises(UsageError, match="not alike"), opened(100, places=found):
        pass
    for place, sms in zip(found, (64, 60), strict=True):
        with opened(100, places=[place]) as gpus:
            assert [slot.share.granted for slot in gpus.slots] == [sms]


def test_partitions_are_whole_chunks(gpu_machine: GpuMachine) -> None:
    with opened(40, in_partitions=True) as gpus:
        shares = [slot.share for slot in gpus.slots]
        assert [(share.kind, share.granted) for share in shares] == [("mps-static", 48)] * 2
        names = {
            dict(slot.seat.environment)["CUDA_MPS_SM_PARTITION"]
            for slot in gpus.slots
            if slot.seat is not None
        }
        assert len(names) == 2  # each has its own


def test_a_driver_without_partitions_is_found_out_by_trying(gpu_machine: GpuMachine) -> None:
    gpu_machine.mps(chunk=0)

    with pytest.raises(MpsError) as caught, opened(40, in_partitions=True):
        pass

    assert caught.value.problem is MpsProblem.NO_PARTITIONS
    assert "--static-partitions" in caught.value.remedy
    assert not daemons()


def test_auto_is_what_was_set_for_the_job(gpu_machine: GpuMachine) -> None:
    with opened("auto", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="30") as gpus:
        assert {slot.share.asked_percent for slot in gpus.slots} == {30}
        # All that is ours: a second client of 30% would take what others were given.
        assert [slot.share.granted for slot in gpus.slots] == [38]


def test_auto_is_all_of_it_where_nothing_was_set(gpu_machine: GpuMachine) -> None:
    with opened("auto") as gpus:
        assert [slot.share.kind for slot in gpus.slots] == ["whole"]


def test_more_than_was_set_for_the_job_is_refused(gpu_machine: GpuMachine) -> None:
    with (
        pytest.raises(EnvironmentUnusableError, match="above the 30%"),
        opened(40, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="30"),
    ):
        pass
    assert not daemons()


def test_shares_add_up_to_more_only_if_that_was_asked_for(gpu_machine: GpuMachine) -> None:
    with pytest.raises(UsageError, match="--oversubscribe"), opened(60, clients=3):
        pass
    with opened(60, clients=3, oversubscribes=True) as gpus:
        assert len(gpus.slots) == 3


@pytest.fixture
def daemon_before_us(gpu_machine: GpuMachine) -> Iterator[Path]:
    """The pipe directory of a daemon that somebody else of the same user started."""
    with tempfile.TemporaryDirectory(prefix="tf-test-", dir="/tmp") as folder:
        told = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        born = {**os.environ, **told, "CUDA_VISIBLE_DEVICES": UUID}
        subprocess.run([BINARY, "-d"], env=born, check=True)
        yield Path(folder)
        for process in daemons():
            process.kill()


def test_a_daemon_that_was_there_is_used_and_left(daemon_before_us: Path) -> None:
    with opened(50, CUDA_MPS_PIPE_DIRECTORY=str(daemon_before_us)) as gpus:
        assert [slot.share.granted for slot in gpus.slots] == [66, 66]
    (daemon,) = daemons()
    assert daemon.is_running()


@pytest.mark.parametrize(("percent", "granted"), [(50, [66, 66]), (100, [132]), ("auto", [132])])
def test_where_mps_alone_may_use_a_gpu_it_is_asked_through_mps(
    gpu_machine: GpuMachine, daemon_before_us: Path, percent: Percent, granted: list[int]
) -> None:
    gpu_machine.cards(Card(uuid=UUID, compute_mode=3, more={"held": 1}))

    with opened(percent, CUDA_MPS_PIPE_DIRECTORY=str(daemon_before_us)) as gpus:
        assert [slot.share.granted for slot in gpus.slots] == granted
        assert {(slot.share.kind, slot.share.total) for slot in gpus.slots} == {("mps", 132)}


def test_a_cap_does_not_make_such_a_gpu_look_smaller(
    gpu_machine: GpuMachine, daemon_before_us: Path
) -> None:
    gpu_machine.cards(Card(uuid=UUID, compute_mode=3, more={"held": 1}))
    control = Control(pipe_directory=daemon_before_us)
    control.ask("set_default_active_thread_percentage 50")
    place = replace(PLACE, gpu=replace(PLACE.gpu, sm_count=132))

    with opened("auto", places=[place], CUDA_MPS_PIPE_DIRECTORY=str(daemon_before_us)) as gpus:
        assert [(slot.share.granted, slot.share.total) for slot in gpus.slots] == [(66, 132)]


def test_a_cap_on_such_a_gpu_that_hides_its_size_is_told(
    gpu_machine: GpuMachine, daemon_before_us: Path
) -> None:
    gpu_machine.cards(Card(uuid=UUID, compute_mode=3, more={"held": 1}))
    control = Control(pipe_directory=daemon_before_us)
    control.ask("set_default_active_thread_percentage 50")
    place = replace(PLACE, gpu=replace(PLACE.gpu, sm_count=None))

    with (
        pytest.raises(MpsError, match="gives 50% of it: how many SMs") as caught,
        opened("auto", places=[place], CUDA_MPS_PIPE_DIRECTORY=str(daemon_before_us)),
    ):
        pass
    assert "compute mode" in caught.value.remedy


def test_a_gpu_that_another_process_has_for_itself_is_not_to_be_had(
    gpu_machine: GpuMachine,
) -> None:
    gpu_machine.cards(Card(uuid=UUID, compute_mode=3, more={"held": 1}))

    with pytest.raises(MpsError) as caught, opened(50):
        pass

    assert caught.value.problem is MpsProblem.EXCLUSIVE
    assert not daemons()
