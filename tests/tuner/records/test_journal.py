"""The journal loses nothing that was acknowledged, whatever happens to its last line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tune_farm.tuner.errors import EnvironmentUnusableError, RunDirectoryError
from tune_farm.tuner.records.journal import Journal, read_journal
from tune_farm.tuner.records.schema import Header
from tune_farm.tuner.types import Fault, Record

MakeRecord = Callable[..., Record]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.jsonl"


@pytest.fixture
def journal(path: Path, header: Header) -> Iterator[Journal]:
    with Journal.create(path, header) as journal:
        yield journal


def test_records_come_back(path: Path, journal: Journal, record: MakeRecord) -> None:
    records = [record("[1]"), record("[2]", Fault.RUN_ERROR), record("[2]", attempt=1)]
    for number, item in enumerate(records):
        assert journal.append(item, spent_seconds=float(number))
    journal.close()
    with Journal.open(path) as again:
        assert again.header == journal.header
        assert again.records == tuple(records)
        assert again.stored == journal.stored
        assert again.spent_seconds == 2.0


def test_empty_journal_has_spent_nothing(journal: Journal) -> None:
    assert journal.spent_seconds == 0.0
    assert journal.records == ()


def test_known_key_is_not_written_twice(path: Path, journal: Journal, record: MakeRecord) -> None:
    assert journal.append(record(), spent_seconds=1.0)
    size = path.stat().st_size
    assert not journal.append(record(seconds=9.0), spent_seconds=2.0)
    journal.close()
    with Journal.open(path) as again:
        assert not again.append(record(), spent_seconds=3.0)
    assert path.stat().st_size == size


def test_append_all_writes_each_key_once_with_one_sync(
    journal: Journal, record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs: list[int] = []
    monkeypatch.setattr(os, "fsync", syncs.append)
    many = [record("[1]"), record("[2]"), record("[1]", 5.0)]
    assert journal.append_all(many, spent_seconds=1.0) == 2
    assert len(syncs) == 1
    assert [item.seconds for item in journal.records] == [1e-3, 1e-3]


def test_create_does_not_overwrite(path: Path, journal: Journal, header: Header) -> None:
    with pytest.raises(RunDirectoryError, match="--resume to go on, --restart"):
        Journal.create(path, header)


def test_every_cut_keeps_the_whole_lines(path: Path, journal: Journal, record: MakeRecord) -> None:
    journal.append_all([record("[1]"), record("[2]")], spent_seconds=1.0)
    journal.close()
    whole = path.read_bytes()
    header_bytes = whole.index(b"\n") + 1
    for cut in range(header_bytes, len(whole), 7):
        path.write_bytes(whole[:cut])
        with Journal.open(path) as again:
            assert len(again.records) == whole[:cut].count(b"\n") - 1
            again.append(record("[3]"), spent_seconds=2.0)
        assert read_journal(path).torn == b""
        assert read_journal(path).stored[-1].record == record("[3]")
        torn = list(path.parent.glob("records.jsonl.torn-*"))
        kept = b"".join(file.read_bytes() for file in torn)
        assert kept == whole[whole[:cut].rfind(b"\n") + 1 : cut]
        for file in torn:
            file.unlink()


@pytest.mark.parametrize("tail", [b'{"kind": "outc\n', b"\0" * 50, b"\xff\xfe\n\n", b"7\n"])
def test_torn_tail_is_quarantined(
    path: Path, journal: Journal, record: MakeRecord, tail: bytes
) -> None:
    journal.append(record(), spent_seconds=1.0)
    journal.close()
    good = path.read_bytes()
    path.write_bytes(good + tail)
    assert len(read_journal(path).stored) == 1
    assert path.read_bytes() == good + tail, "reading alone changes nothing"
    for number in (1, 2):
        with Journal.open(path) as again:
            assert again.records == (record(),)
        assert path.read_bytes() == good
        assert path.with_name(f"records.jsonl.torn-{number}").read_bytes() == tail
        path.write_bytes(good + tail)


def test_kill_between_copy_and_cut_loses_nothing(
    path: Path, journal: Journal, record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append(record(), spent_seconds=1.0)
    journal.close()
    good = path.read_bytes()
    path.write_bytes(good + b"torn")

    def killed(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tune_farm.tuner.records.journal.sync_directory", killed)
        with pytest.raises(KeyboardInterrupt):
            Journal.open(path)
    assert path.read_bytes() == good + b"torn"
    with Journal.open(path) as again:
        assert again.records == (record(),)
    assert path.with_name("records.jsonl.torn-2").read_bytes() == b"torn"


def test_damage_in_the_middle_names_path_and_line(
    path: Path, journal: Journal, record: MakeRecord
) -> None:
    journal.append_all([record("[1]"), record("[2]")], spent_seconds=1.0)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][:30] + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(RunDirectoryError, match=r"records\.jsonl, line 2.*--restart"):
        Journal.open(path)


@pytest.mark.parametrize(
    ("line", "named"),
    [('{"kind": "note"}', "'note'"), ('{"kind": "outcome"}', "'task' is missing")],
)
def test_foreign_line_is_refused(path: Path, journal: Journal, line: str, named: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(RunDirectoryError, match=f"line 2 .*{named}"):
        Journal.open(path)


def test_blank_lines_and_repeated_keys_are_tolerated(
    path: Path, journal: Journal, record: MakeRecord
) -> None:
    journal.append(record(), spent_seconds=1.0)
    lines = path.read_text().splitlines()
    path.write_text("\n\n".join([*lines, lines[-1]]) + "\n \n\n")
    with Journal.open(path) as again:
        assert again.records == (record(),)
    assert not list(path.parent.glob("*torn*"))


def test_unknown_version_is_refused(path: Path, journal: Journal) -> None:
    item = json.loads(path.read_text())
    path.write_text(json.dumps(item | {"v": 2}) + "\n")
    with pytest.raises(RunDirectoryError, match="version 2"):
        Journal.open(path)


@pytest.mark.parametrize("text", ["", "\n", '{"kind": "header", "v": 1}\n', '{"v": 1'])
def test_no_usable_header(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(RunDirectoryError, match="line 1 is damaged"):
        Journal.open(path)


def test_missing_journal(path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="No such file"):
        Journal.open(path)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 KiB, where this user may mount one."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, check=False, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no mount command here")
    if done.returncode:
        pytest.skip("this user may not mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_full_disk_keeps_every_acknowledged_record(
    tiny_disk: Path, header: Header, record: MakeRecord
) -> None:
    path = tiny_disk / "records.jsonl"
    big = "[" + " " * 3000 + "{}]"
    with Journal.create(path, header) as journal:

        def fill() -> None:
            for number in range(100):
                journal.append(record(big.format(number)), spent_seconds=1.0)

        with pytest.raises(EnvironmentUnusableError, match=r"disk full.*--resume") as caught:
            fill()
        assert caught.value.exit_code == 5
        count = len(journal.records)
        assert count > 0
        assert read_journal(path).torn == b""
        assert len(read_journal(path).stored) == count
        # Once there is room again the same journal goes on.
        assert journal.append(record("[]"), spent_seconds=2.0)
    assert len(read_journal(path).stored) == count + 1


LIMITED = """
import resource, sys
from pathlib import Path
from tune_farm.tuner.errors import EnvironmentUnusableError
from tune_farm.tuner.records.journal import Journal
journal = Journal.open(Path(sys.argv[1]))
(record,) = journal.records
from dataclasses import replace
limit = journal.path.stat().st_size + 100
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    journal.append(replace(record, attempt=1), spent_seconds=2.0)
except EnvironmentUnusableError as error:
    print(error.exit_code, error)
"""


def test_file_size_limit_truncates_the_partial_line(
    path: Path, journal: Journal, record: MakeRecord
) -> None:
    journal.append(record(), spent_seconds=1.0)
    before = path.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.startswith("5 file size limit while writing")
    assert path.read_bytes() == before


def test_interrupted_write_leaves_no_half_line(
    path: Path, journal: Journal, record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()
    write = os.write

    def half(descriptor: int, data: bytes) -> int:
        write(descriptor, bytes(data)[:10])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(KeyboardInterrupt):
            journal.append(record(), spent_seconds=1.0)
    assert path.read_bytes() == before
    assert journal.append(record(), spent_seconds=1.0), "it was not taken for written"
