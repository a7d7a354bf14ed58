"""The dry run of the on-device check, and what must hold for it on a bare machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu.conduct import PARTS

_ROOT = Path(__file__).parents[3]
_CHECK = _ROOT / "benchmarks" / "gpu" / "check.py"


def check(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(_CHECK), *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=180,
    )


@pytest.mark.slow
def test_all_parts_run_without_a_gpu_and_say_so(tmp_path: Path) -> None:
    file, nothing = tmp_path / "found.json", tmp_path / "nothing"

    done = check(
        *("run", "--device", "sim:h100", "--bundle", str(nothing), "--json", str(file)),
        folder=tmp_path,
    )

    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text())
    assert {"claim", "quick", "simulated", "results", "rows", "environment"} <= document.keys()
    assert document["simulated"] is True
    assert document["claim"].startswith("SIMULATED: ")
    assert {row["part"]: row["state"] for row in document["rows"]} == {
        part.name: "done" for part in PARTS
    }
    assert all(row["says"].startswith("SIMULATED: ") for row in document["rows"])
    assert all(part["simulated"] for part in document["parts"].values())
    assert all(part["rows"] or name == "driver" for name, part in document["parts"].items())
    heads = [line for line in done.stdout.splitlines() if line.endswith(" s]")]
    assert len(heads) == len(PARTS)
    assert all(line.startswith("SIMULATED: ") for line in heads)
    results = document["results"]
    assert results["parts_done"] == len(PARTS)
    assert results["attachment_fallbacks_caught"] == 2
    assert results["sms_at_50"] == 66
    assert results["blast_mps_neighbors_hit"] == 2
    assert results["blast_static_neighbors_hit"] == 0
    assert results["elsewhere_mean_loss"] >= 0
    assert results["wall_seconds"] < 180


def test_nothing_that_a_bare_machine_lacks_is_imported() -> None:
    code = """
import sys
for name in ("tvm", "tvm_ffi", "ray", "psutil", "pynvml", "rich", "click", "scipy", "xgboost"):
    sys.modules[name] = None
from benchmarks.gpu import check, client, keeper, tvm_child
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("run", "--device", "sim:h100", "--parts", "nonsense"), 2, "there are driver, attachment"),
        (("run", "--bundle", "nowhere"), 5, "there is no bundle in nowhere"),
        (("run", "--device", "sim:h10"), 2, "did you mean sim:h100"),
    ],
)
def test_mistakes_are_told_in_one_line(
    arguments: tuple[str, ...], code: int, words: str, tmp_path: Path
) -> None:
    done = check(*arguments, folder=tmp_path)

    assert done.returncode == code
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
