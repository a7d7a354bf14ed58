"""Ctrl-C and SIGTERM: at once, with everything kept and everything ended."""

from __future__ import annotations

import os
import shlex
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.command import Command, outcomes
from tests.tuner.waiting import happens

pytestmark = [pytest.mark.slow, pytest.mark.ray]


def begin(model: Path, out: Path, *more: str) -> Command:
    limits = ("--sm-share", "50", "--budget", "10m")
    return Command("run", model, *limits, "--out", out, *more, cwd=out.parent)


def has_grown(run: Command, out: Path, size: int) -> bool:
    grown = happens(lambda: len(outcomes(out)) > size or not run.is_running, 120.0)
    return grown and run.is_running


def test_ctrl_c_and_sigterm_end_a_run_that_goes_on_later(tiny_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    with begin(tiny_model, out) as run:
        assert has_grown(run, out, 1), run.stderr
        # Meanwhile: the directory is taken.
        with begin(tiny_model, out, "--resume") as other:
            assert other.wait() == 6
            last = other.stderr.splitlines()[-1]
            assert f"pid {run.pid} on {os.uname().nodename}" in last
        before = outcomes(out)
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to every process in its group
        sent = time.monotonic()
        assert run.wait(30) == 130, run.stderr
        assert time.monotonic() - sent < 5.0
        assert run.leftovers() == []
        command = shlex.split(run.stderr.splitlines()[-1].partition("to go on: ")[2])
    assert command[:2] == ["tune-farm", "run"]
    assert command[-1] == "--resume"
    assert str(out) in command
    assert outcomes(out)[: len(before)] == before

    before = outcomes(out)
    with Command(*command[1:], cwd=tmp_path) as run:  # the command that was printed
        assert has_grown(run, out, len(before)), run.stderr
        os.kill(run.pid, signal.SIGTERM)
        sent = time.monotonic()
        assert run.wait(30) == 143, run.stderr
        assert time.monotonic() - sent < 5.0
        assert run.leftovers() == []
        again = run.stderr.splitlines()[-1]
    assert again.count("--resume") == 1
    assert outcomes(out)[: len(before)] == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_set_up_leaves_nothing(
    tiny_model: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with begin(tiny_model, tmp_path / "out") as run:
        # The farm's processes start; nobody has joined yet.
        assert happens(lambda: bool(run.processes("raylet")), 120.0), run.stderr
        os.killpg(run.pid, number)
        assert run.wait(30) == code, run.stderr
        assert run.leftovers() == []
        assert "Traceback" not in run.stderr
