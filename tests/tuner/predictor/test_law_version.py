"""A law's version follows from its code."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.h100 import H100
from tests.tuner.predictor.machines import CPU
from tune_farm.tuner.predictor.law_version import law_version

ROOT = Path(__file__).resolve().parents[3]
ASK = """
from tests.tuner.predictor.machines import CPU
from tune_farm.tuner.predictor.law_version import law_version
print(law_version(CPU))
"""


def version_of(root: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=root, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_each_kind_of_machine_has_its_own() -> None:
    assert law_version(CPU).startswith("cpu-")
    assert law_version(H100).startswith("gpu-")


def test_code_counts_and_comments_do_not(tmp_path: Path) -> None:
    for part in ("tuner", "tune_farm", "tests/tuner/predictor"):
        shutil.copytree(
            ROOT / part, tmp_path / part, symlinks=True, ignore=shutil.ignore_patterns("*.pyc")
        )
    law = tmp_path / "tuner" / "predictor" / "loop_body.py"  # two imports away
    source = law.read_text()

    law.write_text(f"{source}\n# a word\n")
    assert version_of(tmp_path) == law_version(CPU)
    law.write_text(f"{source}\n_ANOTHER = 1\n")
    assert version_of(tmp_path) not in ("", law_version(CPU))
