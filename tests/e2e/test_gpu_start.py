"""`run --device cuda:0` on a machine of doubles: what is wrong ends it before anything is measured.

Kernels can't run there, so what is right ends, too: at TVM's own look for the device.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles.fixtures import GpuMachine
from tests.doubles.nvml.machine import H100_PROFILES, Card, Instance
from tests.e2e.command import Command
from tune_farm.client.share.mps.control import BINARY

pytestmark = pytest.mark.slow

UUID = "GPU-11111111-1111-1111-1111-111111111111"
MIG = [f"MIG-{d * 8}-{d * 4}-{d * 4}-{d * 4}-{d * 12}" for d in "ab"]
AT_ONCE_SECONDS = 20.0


@pytest.fixture
def pipes() -> Iterator[Path]:
    """A pipe directory short enough for a socket, of a daemon that somebody else starts."""
    folder = Path(f"/tmp/tf-test-{os.getpid()}")
    folder.mkdir()
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def begin(pipes: Path, **environment: str) -> dict[str, str]:
    """Start a daemon as somebody else would; what a job is told of it."""
    told = {"CUDA_MPS_PIPE_DIRECTORY": str(pipes)}
    born = {**os.environ, **told, "CUDA_MPS_LOG_DIRECTORY": str(pipes), **environment}
    subprocess.run([BINARY, "-d"], env=born, check=True)
    return told


def refused(
    model: Path, folder: Path, *options: str, environment: dict[str, str] | None = None
) -> str:
    """The one line with which a run ends at once, that measured nothing and left nothing."""
    out = folder / "out"
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="tfe-", dir="/tmp") as scratch,
        Command(
            "run", model, "--device", "cuda:0", "--out", out, *options,
            cwd=folder, environment={"TMPDIR": scratch, **(environment or {})},
        ) as run,
    ):  # fmt: skip
        assert run.wait() == 5, run.stderr
        assert time.monotonic() - started < AT_ONCE_SECONDS
        assert run.stdout == ""
        (line,) = run.stderr.splitlines()
        assert not run.leftovers()
        assert not list(Path(scratch).iterdir())
    assert not out.exists()
    return line


@pytest.mark.parametrize(
    ("knobs", "cause"),
    [
        ({"lie": {"get_client_list": "99999\n"}}, "is no client of the MPS daemon"),
        ({"chosen": {"40": 132}}, "132 of 132 SMs"),
        ({"hang": ["get_server_list"]}, "did not answer 'get_server_list' in 5 s"),
        ({"hang": ["get_client_list"]}, "did not answer 'get_client_list"),
        ({"uid": 4242}, "SERVER_NOT_READY"),
        ({"stillborn": "MPS is not supported"}, "MPS is not supported"),
    ],
    ids=["lies", "ignores the share", "hangs", "hangs later", "other user", "does not start"],
)
def test_a_share_that_cannot_be_proven_ends_the_run(
    gpu_machine: GpuMachine,
    tiny_model: Path,
    tmp_path: Path,
    knobs: dict[str, object],
    cause: str,
) -> None:
    gpu_machine.mps(**knobs)

    line = refused(tiny_model, tmp_path, "--sm-share", "40")

    assert cause in line
    assert "; " in line  # and the remedy


def test_a_daemon_that_is_dead(
    gpu_machine: GpuMachine, tiny_model: Path, tmp_path: Path, pipes: Path
) -> None:
    told = {"CUDA_MPS_PIPE_DIRECTORY": str(pipes)}

    line = refused(tiny_model, tmp_path, "--sm-share", "40", environment=told)

    assert f"no MPS daemon listens in {pipes}" in line
    assert "unset CUDA_MPS_PIPE_DIRECTORY" in line


def test_a_daemon_of_other_gpus(
    gpu_machine: GpuMachine, tiny_model: Path, tmp_path: Path, pipes: Path
) -> None:
    told = begin(pipes)

    line = refused(tiny_model, tmp_path, "--sm-share", "40", environment=told)

    assert "serves all GPUs" in line
    assert "CUDA_VISIBLE_DEVICES" in line


def test_a_percentage_that_was_set_for_the_job_is_a_ceiling(
    gpu_machine: GpuMachine, tiny_model: Path, tmp_path: Path, pipes: Path
) -> None:
    told = begin(pipes, CUDA_VISIBLE_DEVICES=UUID, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="30")

    line = refused(tiny_model, tmp_path, "--sm-share", "40", environment=told)

    assert "a share of 40% is above the 30%" in line
    assert "--sm-share auto" in line


def test_no_control_command(gpu_machine: GpuMachine, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / BINARY).unlink()

    line = refused(tiny_model, tmp_path, "--sm-share", "40")

    assert f"{BINARY} is not on PATH" in line


def test_mig_without_instances(gpu_machine: GpuMachine, tiny_model: Path, tmp_path: Path) -> None:
    gpu_machine.cards(Card(uuid=UUID, mig_mode=1))

    line = refused(tiny_model, tmp_path)

    assert "in MIG mode and has no instance" in line


def test_instances_that_are_not_alike(
    gpu_machine: GpuMachine, tiny_model: Path, tmp_path: Path
) -> None:
    instances = (
        Instance(index=0, uuid=MIG[0], profile="4g.40gb", sms=64, slices=4),
        Instance(index=3, uuid=MIG[1], profile="3g.40gb", sms=60, slices=3),
    )
    gpu_machine.cards(Card(uuid=UUID, mig_mode=1, instances=instances))
    with Command("run", tiny_model, "--device", "cuda:0", cwd=tmp_path) as run:
        assert run.wait() == 2, run.stderr
        assert "MIG-aaaaaaaa with 64 SMs, MIG-bbbbbbbb with 60 SMs" in run.stderr


def test_instances_to_create_are_shown_first_and_gone_when_the_run_ends(
    gpu_machine: GpuMachine, tiny_model: Path, tmp_path: Path
) -> None:
    gpu_machine.cards(Card(uuid=UUID, mig_mode=1, profiles=H100_PROFILES))
    options = ("--device", "cuda:0", "--create-mig", "--clients", "2")
    with Command("run", tiny_model, *options, "--dry-run", cwd=tmp_path) as run:
        assert run.wait() == 0, run.stderr
        shown = run.stdout.splitlines()
    assert shown[0].startswith(f"creating 2 MIG instances on {UUID}")
    log = tmp_path / "machine.log"
    assert not log.exists()

    with Command("run", tiny_model, *options, cwd=tmp_path) as run:
        assert run.wait() == 5  # TVM finds no device there
        assert run.stderr.splitlines()[: len(shown)] == shown
        assert not run.leftovers()
    done = [line.split()[0] for line in log.read_text().splitlines()]
    assert done == ["create"] * 4 + ["destroy"] * 4


def test_what_was_granted_in_part_is_not_divided(
    gpu_machine: GpuMachine, tiny_model: Path, tmp_path: Path
) -> None:
    gpu_machine.cards(Card(uuid=UUID, mig_mode=1, profiles=H100_PROFILES))
    told = {"CUDA_VISIBLE_DEVICES": "0"}

    line = refused(tiny_model, tmp_path, "--create-mig", "--clients", "2", environment=told)

    assert "CUDA_VISIBLE_DEVICES=0" in line


@pytest.mark.parametrize("percent", ["40", "100"])
def test_a_share_in_force_is_not_enough_where_tvm_finds_no_device(
    gpu_machine: GpuMachine, tiny_model: Path, tmp_path: Path, percent: str
) -> None:
    line = refused(tiny_model, tmp_path, "--sm-share", percent)

    assert "libcudart.so.13" in line or "TVM's CUDA runtime sees no device" in line
    assert "tune-farm[cuda]" in line
