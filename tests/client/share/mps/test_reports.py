"""Ten reports of users of other tools, each answered in one line with cause and remedy."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.share.mps.test_daemon import PLACE, UUID, asked, begin
from tests.doubles.fixtures import GpuMachine
from tests.doubles.nvml.machine import Card, Instance
from tune_farm.client.share.mps.control import BINARY, Control
from tune_farm.client.share.mps.daemon import Daemon, adopt_or_start
from tune_farm.client.share.mps.diagnosis import unshared
from tune_farm.client.share.mps.errors import MpsError, MpsProblem
from tune_farm.client.share.mps.handshake import Attached, Expected, verify

Client = Callable[..., Attached]
OTHER = "GPU-22222222-2222-2222-2222-222222222222"
MIG = "MIG-33333333-3333-3333-3333-333333333333"
NOBODY = 1 << 22  # above the largest number that Linux gives a process
_DOCTOR = """
import json, os
from tune_farm.client.doctor.gpu_checks import gpu_checks
print(json.dumps([(check.name, check.status.value, check.detail)
                  for check in gpu_checks(os.environ, full=True)]))
"""


def refusal(
    attached: Attached, daemon: Daemon, *, percent: float = 40, total: int = 132
) -> MpsError:
    """Why a process may not begin under its share."""
    with pytest.raises(MpsError) as caught:
        verify(attached, Expected(uuid=UUID, total=total, percent=percent), daemon.control)
    assert caught.value.exit_code == 5
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
    return caught.value


def doctor(machine: GpuMachine, **environment: str) -> list[tuple[str, str, str]]:
    """Name, status and detail of what it looked at."""
    return [tuple(row) for row in json.loads(machine.python(_DOCTOR, **environment))]


def test_1_a_container_does_not_reach_the_hosts_daemon(
    gpu_machine: GpuMachine, daemon: Daemon, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu_machine.mps(error=805)
    attached, mine = client(40), os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: 4242)

    error = refusal(attached, daemon)

    assert "MPS_CONNECTION_FAILED (805)" in error.cause
    assert f"it belongs to user {mine}, and this process to 4242" in error.cause
    assert "--ipc=host" in error.remedy


def test_1_what_a_container_does_not_share_is_named(daemon: Daemon, tmp_path: Path) -> None:
    folder = daemon.control.pipe_directory
    theirs, ours = tmp_path / str(daemon.pid) / "root/dev/shm", tmp_path / "shm"
    theirs.mkdir(parents=True)
    ours.mkdir()

    assert unshared(Control(pipe_directory=tmp_path / "none"))[0].endswith("does not exist here")
    assert unshared(daemon.control) == ()
    assert unshared(daemon.control, proc=tmp_path, shm=theirs) == ()
    (shm,) = unshared(daemon.control, proc=tmp_path, shm=ours)
    assert shm == "its /dev/shm is not this process's"
    (hidden,) = unshared(daemon.control, proc=tmp_path / "none")
    assert hidden == "its /dev/shm can't be compared from here"
    (folder / "control").rename(folder / "gone")
    (socket,) = unshared(daemon.control)
    assert "no socket 'control'" in socket
    (folder / "gone").rename(folder / "control")


def test_2_a_pod_sees_no_gpu_since_it_maps_no_shared_memory(
    gpu_machine: GpuMachine, daemon: Daemon, client: Client
) -> None:
    gpu_machine.mps(error=205)
    attached = client(40)
    number = daemon.control.pipe_directory / f"{BINARY}.pid"
    number.write_text(f"{NOBODY}\n")  # as in another pid namespace

    error = refusal(attached, daemon)

    number.write_text(f"{daemon.pid}\n")
    assert "CUDA_ERROR_MAP_FAILED (205)" in error.cause
    assert "its process is not seen here (a container?), nor so its /dev/shm" in error.cause
    assert "/dev/shm and the user id must be the daemon's" in error.remedy


def test_3_another_users_server_refuses_everyone(
    gpu_machine: GpuMachine, daemon: Daemon, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu_machine.mps(uid=5555)
    attached, owner = client(40), os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: 4242)

    error = refusal(attached, daemon)

    assert error.problem is MpsProblem.FOREIGN_USER
    assert f"belongs to user {owner}, and this process to 4242" in error.cause
    assert "-multiuser-server" in error.remedy


def test_4_a_fault_blocks_all_new_clients(daemon: Daemon, client: Client) -> None:
    first, second = client(25), client(25)
    daemon.control.ask(f"__fault {first.pid}")

    error = refusal(client(25), daemon, percent=25)

    assert error.problem is MpsProblem.FAULT
    assert f"is FAULT until processes {first.pid}, {second.pid} have ended" in error.cause
    assert "one daemon a GPU" in error.remedy


def test_5_four_sms_of_forty(gpu_machine: GpuMachine, daemon: Daemon, client: Client) -> None:
    gpu_machine.mps(sms=40)
    gpu_machine.cards(Card(uuid=UUID, name="Tesla T4", capability="7.5", cores=40 * 64))
    daemon.control.ask("set_default_active_thread_percentage 10")

    error = refusal(client(40), daemon, total=40)

    assert error.problem is MpsProblem.CAPPED
    assert "you run under a cap of 10% (4 of 40 SMs)" in error.cause
    assert "--sm-share auto" in error.remedy


def test_6_busy_or_unavailable_above_so_many_replicas(
    gpu_machine: GpuMachine, daemon: Daemon, client: Client
) -> None:
    client(25)
    client(25)
    gpu_machine.mps(error=46)

    error = refusal(client(25), daemon, percent=25)

    assert error.problem is MpsProblem.FULL
    assert "has 2 clients: a server takes 48 contexts" in error.cause
    assert "--clients N" in error.remedy


def test_6_busy_without_any_client_is_somebody_elses_gpu(
    gpu_machine: GpuMachine, daemon: Daemon, client: Client
) -> None:
    gpu_machine.mps(error=46)

    error = refusal(client(25), daemon, percent=25)

    assert error.problem is MpsProblem.EXCLUSIVE
    assert "compute mode" in error.remedy


def test_7_a_daemon_that_was_given_no_gpu_serves_all(pipes: Path) -> None:
    begin(pipes)

    with pytest.raises(MpsError, match=f"serves all GPUs, not {UUID} alone") as caught:
        adopt_or_start(PLACE, asked(pipes))

    assert "CUDA_VISIBLE_DEVICES set to this GPU's UUID alone" in caught.value.remedy


def test_8_a_mig_uuid_is_never_taken_for_a_number(gpu_machine: GpuMachine) -> None:
    gpu_machine.mps(sms=16)
    gpu_machine.cards(
        Card(uuid=UUID, mig_mode=1, instances=(Instance(index=0, uuid=MIG, sms=16),)),
        Card(uuid=OTHER),
    )

    rows = doctor(gpu_machine, CUDA_VISIBLE_DEVICES=MIG)

    ((_, status, detail),) = [row for row in rows if row[0].startswith("share of")]
    assert status == "ok", detail
    assert "50% gives 8 of 16 SMs" in detail


@pytest.mark.parametrize(
    ("visible", "cause"),
    [
        ("", "NO_DEVICE (100): CUDA_VISIBLE_DEVICES of the client is '', and has to be"),
        ("1", f"got {OTHER} instead of {UUID}: CUDA_VISIBLE_DEVICES of the client is '1'"),
    ],
    ids=["none", "another"],
)
def test_9_ray_overrides_what_is_visible(
    gpu_machine: GpuMachine, daemon: Daemon, client: Client, visible: str, cause: str
) -> None:
    gpu_machine.cards(Card(uuid=UUID), Card(uuid=OTHER))

    error = refusal(client(40, CUDA_VISIBLE_DEVICES=visible), daemon)

    assert error.problem is MpsProblem.WRONG_DEVICE
    assert cause in error.cause
    for word in ("num_gpus", "env_vars", "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"):
        assert word in error.remedy


def test_10_a_share_seems_to_have_no_effect(gpu_machine: GpuMachine) -> None:
    rows = doctor(gpu_machine)

    details = {name: detail for name, _, detail in rows}
    assert "50% gives 66 of 132 SMs" in details[f"share of {UUID[:12]}"]
    assert "99% at a share of 1%" in details["GPU utilization"]
