"""Compilers that are missing, or fail for some operators or for all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.command import ROOT, Command, keys, outcomes

pytestmark = [pytest.mark.slow, pytest.mark.ray]

LIMITS = ("--sm-share", "50", "--clients", "1", "--trials-per-task", "3", "--format", "json")
PARTS = ("tuner", "sharding", "client", "server")


def compiler(folder: Path, condition: str) -> dict[str, str]:
    """The environment in which the compiler fails for an object "$each" on a shell condition."""
    real = next(path for name in ("g++", "gcc", "clang++", "clang") if (path := shutil.which(name)))
    wrapper = folder / "picky-compiler"
    wrapper.write_text(
        "#!/bin/sh\n"
        'for each in "$@"; do\n'
        '  case "$each" in\n'
        f"    *.o) if {condition}; then echo 'error: not this one' >&2; exit 1; fi ;;\n"
        "  esac\n"
        "done\n"
        f'exec {real} "$@"\n'
    )
    wrapper.chmod(0o755)
    return {"CXX": str(wrapper)}


@pytest.fixture
def checkout_without_links(tmp_path: Path) -> Path:
    """A copy of what runs, as a zip download or a file system without links leaves it."""
    copy = tmp_path / "checkout"
    junk = shutil.ignore_patterns("__pycache__")
    for name in ("tune_farm", "configs", *PARTS):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=junk)
    for part in PARTS:
        (copy / "tune_farm" / part).unlink()
    return copy


def test_no_compiler(tiny_model: Path, tmp_path: Path) -> None:
    empty = {"PATH": str(tmp_path), "CXX": "", "CC": ""}
    with Command("run", tiny_model, *LIMITS, cwd=tmp_path, environment=empty) as run:
        assert run.wait() == 5
        lines = run.stderr.splitlines()

    assert len(lines) == 1, lines
    assert "no C compiler" in lines[0]
    assert "install" in lines[0]
    assert list(tmp_path.iterdir()) == []


def test_every_build_fails(tiny_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    broken = compiler(tmp_path, "true")
    with Command("run", tiny_model, *LIMITS, "--out", out, cwd=tmp_path, environment=broken) as run:
        assert run.wait() == 3, run.stderr
        summary = json.loads(run.stdout)
        assert run.leftovers() == []
        assert "Traceback" not in run.stderr

    assert "build_error" in summary["first_failure"]
    assert "not this one" in "".join(path.read_text() for path in (out / "failures").iterdir())
    before = outcomes(out)
    assert {row["outcome"] for row in before} == {"failed"}

    again = (*LIMITS, "--tasks", "0", "--out", out, "--retry-failed")
    with Command("run", tiny_model, *again, cwd=tmp_path) as run:
        assert run.wait() == 0, run.stderr
        (task,) = json.loads(run.stdout)["tasks"]
    assert task["state"] in ("tuned", "baseline")
    rows = outcomes(out)
    assert rows[: len(before)] == before
    assert len(set(keys(rows))) == len(rows)


def test_one_operator_never_builds(
    tiny_model: Path, tmp_path: Path, checkout_without_links: Path
) -> None:
    out = tmp_path / "out"
    # An operator alone is a function `main` whose message for wrong arguments tells its signature.
    # In the whole model, which must build, the same function has the operator's name.
    picky = compiler(tmp_path, """grep -aqE 'main\\(.*matmul: Tensor' "$each\"""")
    with Command(
        *("run", tiny_model, *LIMITS, "--out", out),
        cwd=checkout_without_links,
        root=checkout_without_links,
        environment=picky,
    ) as run:
        assert run.wait() == 4, run.stderr
        summary = json.loads(run.stdout)
        assert run.leftovers() == []

    states = {task["name"]: task["state"] for task in summary["tasks"]}
    assert states.pop("matmul.1x10") == "failed"
    assert set(states.values()) <= {"tuned", "baseline"}
    (reason,) = {task["reason"] for task in summary["tasks"] if task["state"] == "failed"}
    assert "build_error" in reason
    assert summary["end_to_end"]["checked"] is True
    assert {row["fault"] for row in outcomes(out)} == {None, "build_error"}
