"""SIGKILL of any part of a run loses no record, measures nothing twice, leaves nothing behind."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Command, keys, outcomes
from tests.e2e.kills import Victim, kill
from tests.tuner.waiting import happens

pytestmark = [pytest.mark.slow, pytest.mark.ray]

START_SECONDS = 120.0


def begin(model: Path, out: Path, *more: str) -> Command:
    limits = ("--sm-share", "50", "--clients", "1", "--trials-per-task", "12")
    return Command("run", model, *limits, "--out", out, *more, cwd=out.parent)


def wait_for_records(run: Command, out: Path, more: int) -> list[dict[str, Any]]:
    """Wait until the journal has grown; returns what it holds then."""
    wanted = len(outcomes(out)) + more
    grown = happens(lambda: len(outcomes(out)) >= wanted or not run.is_running, START_SECONDS)
    assert grown, f"no {more} records in {START_SECONDS} s: {run.stderr}"
    assert run.is_running, f"it ended too early: {run.stderr}"
    return outcomes(out)


def check_end(run: Command, out: Path, before: list[dict[str, Any]]) -> None:
    assert run.wait() == 0, run.stderr
    after = outcomes(out)
    assert after[: len(before)] == before
    assert len(keys(after)) == len(set(keys(after)))
    assert len(after) > len(before)
    assert run.leftovers() == []


def test_killed_session_and_killed_server_are_resumed(tiny_model: Path, tmp_path: Path) -> None:
    out, generator = tmp_path / "out", random.Random(0)

    with begin(tiny_model, out) as first:
        before = wait_for_records(first, out, 3)
        kill(first, Victim.SESSION, generator)
        assert first.leftovers() == []
    with begin(tiny_model, out, "--resume") as second:
        since = wait_for_records(second, out, 2)
        assert since[: len(before)] == before
        kill(second, Victim.SERVER, generator)
        assert second.leftovers() == []
    with begin(tiny_model, out, "--resume") as third:
        check_end(third, out, since)


def test_killed_child_and_killed_client_are_replaced(tiny_model: Path, tmp_path: Path) -> None:
    out, generator = tmp_path / "out", random.Random(0)

    with begin(tiny_model, out) as run:
        before = wait_for_records(run, out, 3)
        assert kill(run, Victim.CHILD, generator) == 1
        before = wait_for_records(run, out, 2)
        assert kill(run, Victim.CLIENT, generator) == 1
        check_end(run, out, before)

    assert "client_lost" in (out / "events.jsonl").read_text()
