from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.share.mps.test_daemon import PLACE, UUID
from tests.doubles.fixtures import GpuMachine
from tests.doubles.nvml.machine import Card
from tune_farm.client.share.mps.control import BINARY
from tune_farm.client.share.mps.daemon import Daemon, start, stop
from tune_farm.client.share.mps.errors import MpsError, MpsProblem
from tune_farm.client.share.mps.handshake import Attached, Expected, pids_of, verify
from tune_farm.tuner.children.spawn import Birth, Child

Client = Callable[..., Attached]


def expected(percent: float, sms: int | None = None) -> Expected:
    return Expected(uuid=UUID, total=132, percent=percent, sms=sms)


@pytest.mark.parametrize(("percent", "sms"), [(100, 132), (50, 66), (40, 52), (25, 32), (1, 2)])
def test_a_share_in_force_is_told_in_sms(
    daemon: Daemon, client: Client, percent: float, sms: int
) -> None:
    assert verify(client(percent), expected(percent), daemon.control) == sms


def test_a_process_that_mps_does_not_know_is_refused(daemon: Daemon, client: Client) -> None:
    alone = client(40, CUDA_MPS_PIPE_DIRECTORY="/nonexistent")

    assert alone.devices[0].sm_count == 132  # all of it, and CUDA said nothing
    with pytest.raises(MpsError, match="132 of 132 SMs, not the 53 of 40%") as caught:
        verify(alone, expected(40), daemon.control)
    assert caught.value.problem is MpsProblem.NOT_IN_FORCE


def test_the_right_number_of_sms_proves_nothing_where_mps_does_not_know_us(
    gpu_machine: GpuMachine, daemon: Daemon, client: Client
) -> None:
    attached = client(40)
    gpu_machine.mps(lie={"get_client_list": "99999\n"})

    with pytest.raises(MpsError, match="is no client of the MPS daemon") as caught:
        verify(attached, expected(40), daemon.control)
    assert caught.value.problem is MpsProblem.NOT_ATTACHED


def test_more_sms_than_the_percentage_allows(
    gpu_machine: GpuMachine, daemon: Daemon, client: Client
) -> None:
    gpu_machine.mps(chosen={"40": 60})

    with pytest.raises(MpsError, match="60 of 132 SMs"):
        verify(client(40), expected(40), daemon.control)


def test_another_gpu(gpu_machine: GpuMachine, daemon: Daemon, client: Client) -> None:
    gpu_machine.cards(Card(uuid="GPU-22222222-2222-2222-2222-222222222222"))

    with pytest.raises(MpsError, match="NO_DEVICE"):
        verify(client(40), expected(40), daemon.control)
    with pytest.raises(MpsError, match=r"got GPU-2222.* instead of") as caught:
        verify(client(40, CUDA_VISIBLE_DEVICES="0"), expected(40), daemon.control)
    assert caught.value.problem is MpsProblem.WRONG_DEVICE


def test_a_server_in_fault_says_so(gpu_machine: GpuMachine, daemon: Daemon, client: Client) -> None:
    first = client(25)
    daemon.control.ask(f"__fault {first.pid}")

    with pytest.raises(MpsError, match=r"SERVER_NOT_READY.*is FAULT") as caught:
        verify(client(25), expected(25), daemon.control)
    assert caught.value.problem is MpsProblem.FAULT
    with pytest.raises(MpsError, match="in state FAULT"):
        verify(first, expected(25), daemon.control)


def test_another_users_server_says_so(
    gpu_machine: GpuMachine, daemon: Daemon, client: Client
) -> None:
    gpu_machine.mps(uid=4242)

    with pytest.raises(MpsError, match="SERVER_NOT_READY"):
        verify(client(25), expected(25), daemon.control)


def test_a_full_server_says_how_full(
    gpu_machine: GpuMachine, daemon: Daemon, client: Client
) -> None:
    gpu_machine.mps(limit=1)
    client(25)

    with pytest.raises(MpsError, match=r"MAX_CLIENTS_REACHED.*has 1 clients") as caught:
        verify(client(25), expected(25), daemon.control)
    assert caught.value.problem is MpsProblem.FULL


def test_a_static_partition_gives_exactly_its_sms(gpu_machine: GpuMachine, tmp_path: Path) -> None:
    divided = start(PLACE, BINARY, os.environ, static=True)
    try:
        name = divided.control.add_partition(UUID, 4)
        child = Child(
            Birth(
                role="tune_farm.client.share.mps.handshake",
                name="partitioned",
                cores=tuple(sorted(os.sched_getaffinity(0))),
                threads=1,
                scratch=tmp_path,
                environment=divided.environment(None, name),
            )
        )
        try:
            attached = child.receive(20)
            assert verify(attached, expected(25, sms=32), divided.control) == 32
        finally:
            child.kill()
    finally:
        stop(divided)


def test_a_process_has_a_number_in_each_namespace(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text("Name:\tx\nNSpid:\t7\t3\n")

    assert pids_of(7, tmp_path) == {7, 3}
    assert pids_of(8, tmp_path) == {8}


def test_the_order_of_leaving_is_terminate_then_kill(daemon: Daemon, client: Client) -> None:
    attached = client(25)
    (server,) = daemon.control.servers()

    daemon.control.terminate(server, attached.pid)

    assert daemon.control.clients(server) == ()
    with pytest.raises(MpsError, match="CUDA_ERROR_INVALID_VALUE"):
        daemon.control.terminate(server, attached.pid)
