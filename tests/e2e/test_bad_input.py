"""What a user may get wrong: one line that names it, and the right exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.command import Command
from tests.e2e.tiny_model import write_tiny_model

pytestmark = pytest.mark.slow


def refusal(folder: Path, *arguments: str | Path, code: int = 2) -> str:
    """Run in a folder; check the form of the refusal and return its line."""
    before = sorted(folder.rglob("*"))
    with Command("run", *arguments, cwd=folder) as run:
        assert run.wait() == code, run.stderr
        assert run.stdout == ""
        assert "Traceback" not in run.stderr
        *others, last = run.stderr.splitlines()
    assert last.startswith("tune-farm: error: ")
    assert not [line for line in others if not line.startswith("no GPU found")], others
    assert sorted(folder.rglob("*")) == before, "something was left behind"
    return last


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--sm-share", "0"), "1 to 100"),
        (("--sm-share", "101"), "1 to 100"),
        (("--sm-share", "abc"), "'abc'"),
        (("--clients", "0"), "at least 1"),
        (("--clients", "1000"), "at most"),
        (("--budget", "0"), "duration"),
        (("--budget=-5m",), "'-5m'"),
        (("--budget", "5 parsecs"), "'5 parsecs'"),
        (("--tasks", "99"), "task 99"),
        (("--device", "toaster"), "toaster"),
        (("--device", "cpu", "--static-partitions"), "--static-partitions is for GPUs"),
        (("--device", "cpu", "--oversubscribe"), "--oversubscribe is for GPUs"),
        (("--target", "toaster"), "toaster"),
        (("--resume",), "--out"),
        (("--resume", "--restart"), "exclude each other"),
        (("--keep", "2"), "0 to 1"),
        (("--out", "/proc/here"), "cannot write to /proc"),
        (("--out", "/proc/here", "--dry-run"), "cannot write to /proc"),
    ],
)
def test_bad_option(
    tiny_model: Path, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    assert says in refusal(tmp_path, tiny_model, *arguments)


def test_unknown_model(tmp_path: Path) -> None:
    line = refusal(tmp_path, "resnet15")

    assert "'resnet15'" in line
    assert "resnet18" in line


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "does not exist"), (b"", "is empty"), (b"\x00not a model" * 9, "not an ONNX file")],
    ids=["missing", "empty", "corrupt"],
)
def test_unreadable_model(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)

    line = refusal(tmp_path, path)

    assert says in line
    assert str(path) in line


def test_model_cut_short(tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "short.onnx"
    path.write_bytes(tiny_model.read_bytes()[:-1000])

    assert "short.onnx" in refusal(tmp_path, path)


@pytest.mark.parametrize("domain", ["", "com.example"])
def test_unsupported_operator_is_named(tmp_path: Path, domain: str) -> None:
    path = write_tiny_model(tmp_path / "odd.onnx", last_operator="Frobnicate", domain=domain)

    assert "Frobnicate" in refusal(tmp_path, path)


@pytest.mark.parametrize("where", ["file/out", "/proc/out"])
def test_unwritable_directory(tiny_model: Path, tmp_path: Path, where: str) -> None:
    (tmp_path / "file").touch()

    line = refusal(tmp_path, tiny_model, "--out", tmp_path / where)

    assert "cannot write" in line
    assert "--out" in line
