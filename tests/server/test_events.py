"""Events are appended as whole lines and read back past any torn one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tune_farm.server.events import EventLog, pruned_of, read_events
from tune_farm.tuner.errors import EnvironmentUnusableError
from tune_farm.tuner.interfaces import Pruned


def test_events_come_back(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventLog(path, clock=lambda: 5.0) as log:
        log.append("pruned", task="conv", fault="pruned_static", count=3)
    with EventLog(path, clock=lambda: 6.0) as log:
        log.append("phase", name="search")
        assert list(read_events(path)) == [
            {"time": 5.0, "kind": "pruned", "task": "conv", "fault": "pruned_static", "count": 3},
            {"time": 6.0, "kind": "phase", "name": "search"},
        ]


def test_torn_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"kind": "first"}\n{"kind": "to')
    with EventLog(path, clock=lambda: 1.0) as log:
        log.append("after")
    assert [event["kind"] for event in read_events(path)] == ["first", "after"]


def test_no_file_no_events(tmp_path: Path) -> None:
    assert list(read_events(tmp_path / "events.jsonl")) == []
    assert pruned_of(tmp_path / "events.jsonl") == Pruned()


def test_pruned_drafts_add_up_over_sessions(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for _ in range(2):
        with EventLog(path) as log:
            log.append("pruned", fault="pruned_static", count=3)
            log.append("pruned", fault="pruned_predicted", count=10)
            log.append("phase", phase="search")

    assert pruned_of(path) == Pruned(over_limit=6, predicted_slow=20)


def test_full_disk_is_named() -> None:
    with (
        EventLog(Path("/dev/full")) as log,
        pytest.raises(EnvironmentUnusableError, match="disk full while writing /dev/full"),
    ):
        log.append("phase")


def test_unwritable_file(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnusableError, match="cannot write"):
        EventLog(tmp_path)
