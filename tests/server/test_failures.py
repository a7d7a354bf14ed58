"""Failures of one cause share one file; what differs by chance alone makes no new cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from tune_farm.server import failures
from tune_farm.server.failures import FailureLog, signature_of
from tune_farm.tuner.types import Failed, Fault


def make(detail: str, fault: Fault = Fault.RUN_ERROR) -> Failed:
    return Failed(fault=fault, detail=detail)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("out of registers: 300 > 255", "out of registers: 1024 > 255"),
        ("bad access at 0x7f00aa", "bad access at 0x1"),
        ("cannot load /tmp/x1ab/lib.so", "cannot load /tmp/_q/f-3/lib.so"),
        ("candidate 0123456789abcdef0123 broke", "candidate fedcba98765432100000 broke"),
        ("same\nstderr of one", "same\nstderr of another"),
        ("\n  same", "same"),
    ],
)
def test_same_cause(one: str, other: str) -> None:
    assert signature_of(make(one)) == signature_of(make(other))


def test_different_causes() -> None:
    signatures = {
        signature_of(make("a")),
        signature_of(make("b")),
        signature_of(make("a", Fault.BUILD_ERROR)),
        signature_of(make("deadbeefs are words")),
        signature_of(make("")),
    }
    assert len(signatures) == 5


def test_one_file_a_cause_with_the_whole_detail(tmp_path: Path) -> None:
    log = FailureLog(tmp_path)
    assert log.first is None
    signature = log.add(
        make("no memory for 7 bytes\nlast words \ud800"),
        task_name="conv",
        candidate_id="abc",
        client="node1/0",
    )
    assert log.add(make("no memory for 8 bytes"), task_name="d", candidate_id="e") == signature
    log.add(make("", Fault.LOST), task_name="d", candidate_id="e")
    text = (tmp_path / f"{signature}.txt").read_text()
    assert "fault: run_error\ntask: conv\ncandidate: abc\nclient: node1/0\n" in text
    assert "no memory for 7 bytes\nlast words \\ud800\n" in text
    assert len(list(tmp_path.iterdir())) == 2
    assert [(cause.fault, cause.count) for cause in log.causes] == [("run_error", 2), ("lost", 1)]
    assert log.causes[0].first_line == "no memory for 7 bytes"
    assert log.first == "run_error: no memory for 7 bytes"


def test_resumed_run_keeps_the_first_account(tmp_path: Path) -> None:
    signature = FailureLog(tmp_path).add(make("x 1"), task_name="a", candidate_id="1")
    FailureLog(tmp_path).add(make("x 2"), task_name="b", candidate_id="2")
    assert "task: a" in (tmp_path / f"{signature}.txt").read_text()


def test_number_of_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "MAX_FILES", 3)
    log = FailureLog(tmp_path)
    for letter in "abcdef":
        log.add(make(letter), task_name="t", candidate_id="c")
    assert len(list(tmp_path.iterdir())) == 3
    assert len(log.causes) == 6
