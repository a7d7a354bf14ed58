from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

import tune_farm
from tune_farm.cli import main
from tune_farm.tuner.predictor.forecast import trained as trained_file

ROOT = Path(tune_farm.__file__).parent.parent


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["forecast", *arguments])


def document(*arguments: str) -> dict[str, Any]:
    result = asked(*arguments, "--format", "json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_table_for_each_gpu() -> None:
    result = asked("gpt2-large", "--gpu", "h100, l4", "--batch", "4", "--seq", "1024")

    assert result.exit_code == 0
    blocks = result.stdout.split("\n\n")
    assert [block.split(" (")[0] for block in blocks] == ["NVIDIA H100 80GB HBM3", "NVIDIA L4"]
    for block in blocks:
        title, header, *rows = block.splitlines()
        assert "gpt2-large, inference, batch 4, sequence 1024, float32" in title
        assert header.split()[:3] == ["class", "kernels", "ms"]
        names = [row.split("  ")[0] for row in rows]
        assert {"linear", "batched matmul", "softmax", "layer norm", "total"} <= set(names)
        assert names[-1] == "total"


def test_json_has_classes_operators_and_a_total_that_is_their_sum() -> None:
    found = document("bert-large", "--gpu", "a100", "--batch", "8", "--seq", "512")

    (one,) = found["forecasts"]
    assert (found["model"], found["mode"], found["sequence"]) == ("bert-large", "inference", 512)
    assert one["low_seconds"] < one["seconds"] < one["high_seconds"]
    for part in ("classes", "operators"):
        assert sum(row["seconds"] for row in one[part]) == pytest.approx(one["seconds"])
    assert {row["operator"] for row in one["operators"]} > {"attention.scores", "mlp.up"}
    assert one["backward_seconds"] == 0


def test_training_shows_both_ways() -> None:
    result = asked("gpt2-large", "--gpu", "h100", "--seq", "512", "--mode", "training")

    assert result.exit_code == 0
    assert "forward " in result.stdout.splitlines()[-1]
    assert ", backward " in result.stdout.splitlines()[-1]


def test_a_share_is_slower_and_says_so() -> None:
    sizes = ("--batch", "8", "--seq", "512")
    whole, part = (
        document("bert-large", "--gpu", "a100", *sizes, "--sm-share", share)["forecasts"][0]
        for share in ("100", "40")
    )
    assert part["sms"] < whole["sms"] == part["total_sms"]
    assert part["seconds"] > whole["seconds"]
    table = asked("bert-large", "--gpu", "a100", "--sm-share", "40").stdout
    assert "(42 of 108 SMs)" in table


def test_convolutions_are_marked() -> None:
    result = asked("resnet50", "--gpu", "h100", "--batch", "8")

    marked = [line for line in result.stdout.splitlines() if line.endswith("EXTRAPOLATED")]
    assert [line.split()[0] for line in marked][:1] == ["convolution"]
    assert marked[-1].startswith("total")
    assert "EXTRAPOLATED: no measurement" in result.stdout


def test_fusion_is_faster() -> None:
    sizes = ("bert-large", "--gpu", "h100", "--batch", "8", "--seq", "512")
    plain, fused = (document(*sizes, *extra) for extra in ((), ("--fuse",)))
    assert fused["fused"]
    assert fused["forecasts"][0]["seconds"] < plain["forecasts"][0]["seconds"]


def test_groups_of_gpus() -> None:
    sizes = ("gpt2-large", "--gpu", "h100", "--batch", "4", "--seq", "1024", "--mode", "training")
    for kind in ("data", "tensor", "pipeline"):
        found = document(*sizes, "--parallel", kind)
        group = found["forecasts"][0]["group"]
        assert (group["parallel"], group["gpus"], found["batch"]) == (kind, 4, 4)
        assert 0 < group["exchange_seconds"] < group["seconds"]
    table = asked(*sizes, "--parallel", "tensor", "--gpus", "2", "--link", "600").stdout
    assert "2 GPUs, tensor parallel: " in table.splitlines()[-1]


def test_csv_has_a_row_for_each_class_of_each_gpu() -> None:
    result = asked("bert-base", "--gpu", "h100,l4", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert {row["gpu"] for row in rows} == {"NVIDIA H100 80GB HBM3", "NVIDIA L4"}
    assert all(float(row["seconds"]) >= 0 for row in rows)


def test_operators_can_be_listed() -> None:
    lines = asked("bert-base", "--gpu", "l4", "--operators").stdout.splitlines()
    assert any(line.split()[:2] == ["layer", "attention.softmax"] for line in lines)


def test_what_does_not_fit_is_said() -> None:
    result = asked("gpt3-2.7b", "--gpu", "p4", "--seq", "128")
    assert result.exit_code == 0
    assert "Tesla P4 holds 8.0 GB, but the weights alone take 10.6 GB" in result.stderr
    assert asked("bert-base", "--gpu", "p4").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("gpt3-xl", "--gpu", "h10"), "no GPU is named 'h10'; did you mean "),
        (("gpt3-xl", "--gpu", " , "), "no GPU is named; give --gpu"),
        (("gpt3-xl",), "Missing option '--gpu'"),
        (("gpt3-xl", "--gpu", "h100", "--batch", "0"), "'0' is not a count"),
        (
            ("gpt3-xl", "--gpu", "h100", "--seq", "4096"),
            "a sequence of 4096 tokens is out of range",
        ),
        (("gpt-xl", "--gpu", "h100"), "unknown model 'gpt-xl'; did you mean "),
        (("absent.onnx", "--gpu", "h100"), "absent.onnx does not exist"),
        (("bert-base", "--gpu", "h100", "--fuse", "--mode", "training"), "for inference only"),
        (("bert-base", "--gpu", "h100", "--parallel", "data"), "add --mode training"),
        (
            (
                "gpt2-large",
                "--gpu",
                "l4",
                "--parallel",
                "data",
                "--mode",
                "training",
                "--batch",
                "4",
            ),
            "how NVIDIA L4 GPUs are linked is not known; give --link",
        ),
    ],
)
def test_mistakes_are_one_line_and_2(arguments: tuple[str, ...], says: str) -> None:
    result = asked(*arguments)

    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_missing_predictor_is_5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trained_file, "FILE_NAME", "absent.json")
    trained_file.trained.cache_clear()
    try:
        result = asked("bert-base", "--gpu", "h100")
    finally:
        trained_file.trained.cache_clear()

    assert result.exit_code == 5
    assert "absent.json) cannot be read" in result.stderr
    assert (result.stderr.count("\n"), result.stdout) == (1, "")


def test_unknown_operators_are_named(tmp_path: Path) -> None:
    node = helper.make_node("NonZero", ["x"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    y = helper.make_tensor_value_info("y", TensorProto.INT64, [1, None])
    model = helper.make_model(
        helper.make_graph([node], "graph", [x], [y]), opset_imports=[helper.make_opsetid("", 17)]
    )
    (tmp_path / "strange.onnx").write_bytes(model.SerializeToString())
    result = asked(str(tmp_path / "strange.onnx"), "--gpu", "h100")
    assert result.exit_code == 2
    assert "strange.onnx uses operators that have no forecast: NonZero" in result.stderr


def test_it_imports_neither_tvm_nor_ray_and_answers_at_once() -> None:
    code = (
        "import sys, tune_farm.cli as cli\n"
        "try: cli.main(sys.argv[1:])\n"
        "finally: print(sorted({'tvm', 'ray', 'torch', 'onnx', 'scipy'} & set(sys.modules)))"
    )
    arguments = ["forecast", "gpt3-xl", "--gpu", "h100,l4", "--batch", "2", "--seq", "2048"]
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout.endswith("\n[]\n")
    assert time.monotonic() - started < 5  # twice what it may take: others run here, too


MEASURED = """kind,batch,rows,depth,columns,operation,milliseconds
linear,1,512,1024,4096,,0.2
linear,1,2048,1024,1024,,0.21
linear,1,4096,4096,1024,,1.5
"""


def test_measured_kernels_correct_their_class_and_say_what_that_gains(tmp_path: Path) -> None:
    (tmp_path / "measured.csv").write_text(MEASURED)
    settings = ("bert-large", "--gpu", "h100", "--batch", "8", "--seq", "512")
    corrected = ("--calibrate", str(tmp_path / "measured.csv"))

    before, after = document(*settings), document(*settings, *corrected)

    (gain,) = after["calibration"]
    assert (gain["kind"], gain["kernels"]) == ("linear", 3)
    assert before["calibration"] == []
    told = [
        {row["class"]: row["seconds"] for row in each["forecasts"][0]["classes"]}
        for each in (before, after)
    ]
    assert told[1]["linear"] / told[0]["linear"] == pytest.approx(gain["factor"])
    assert told[1]["softmax"] == told[0]["softmax"]
    assert "calibrated: linear x " in asked(*settings, *corrected).stdout


def test_calibration_is_of_one_gpu(tmp_path: Path) -> None:
    (tmp_path / "measured.csv").write_text(MEASURED)
    result = asked("bert-large", "--gpu", "h100,l4", "--calibrate", str(tmp_path / "measured.csv"))

    assert result.exit_code == 2
    assert "measured on one GPU, and 2 are named" in result.stderr
