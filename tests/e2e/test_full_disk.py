"""A disk that fills up ends the run with a word, and what was written stays readable."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.command import Command, keys, outcomes

pytestmark = [pytest.mark.slow, pytest.mark.ray]

OWN_MOUNTS = ("unshare", "--user", "--map-root-user", "--mount")
#: Runs the rest of its arguments with a small disk as $1; what the disk held is copied to $2.
ON_SMALL_DISK = """
disk=$1; copy=$2; size=$3; shift 3
mount -t tmpfs -o size=$size tmpfs "$disk" || exit 99
"$@"; code=$?
cp -r "$disk/." "$copy"
exit $code
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> tuple[str, ...]:
    """A program that calls another with 200 KiB at `<tmp_path>/disk`."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "copy").mkdir()
    folders = (str(tmp_path / "disk"), str(tmp_path / "copy"), "200k")
    prefix = (*OWN_MOUNTS, "sh", "-c", ON_SMALL_DISK, "sh", *folders)
    probe = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"no disk can be mounted here: {probe.stderr.strip()}")
    return prefix


def test_full_disk(tiny_model: Path, tmp_path: Path, small_disk: tuple[str, ...]) -> None:
    limits = ("--sm-share", "50", "--trials-per-task", "40")
    arguments = ("run", tiny_model, *limits, "--out", tmp_path / "disk")
    with Command(*arguments, cwd=tmp_path, prefix=small_disk) as run:
        assert run.wait() == 5, run.stderr
        last = run.stderr.splitlines()[-1]
        assert run.leftovers() == []

    assert "disk full" in last
    rows = outcomes(tmp_path / "copy")
    assert 3 < len(rows) < 3 * 40
    assert len(keys(rows)) == len(set(keys(rows)))
    text = (tmp_path / "copy" / "records.jsonl").read_text()
    assert text.endswith("\n"), "half a line was left"


def test_full_disk_behind_stdout(tiny_model: Path, tmp_path: Path) -> None:
    shell = ("sh", "-c", 'exec "$@" >/dev/full', "sh")
    with Command("tasks", tiny_model, cwd=tmp_path, prefix=shell) as run:
        assert run.wait() == 5
        assert run.stderr.splitlines()[-1].startswith("tune-farm: error: disk full")
