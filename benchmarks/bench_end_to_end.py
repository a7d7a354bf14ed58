"""Claim: a tuned ResNet-50 takes at most twice onnxruntime's time on the same cores.

Each model is tuned by the command that users type; then all builds run in turn, one at a time:
ours, onnxruntime's, and PyTorch's where an interpreter has it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
sys.path[0:0] = [] if str(ROOT) in sys.path else [str(ROOT)]  # also as a plain script

from benchmarks.report import Report, print_report, write_report  # noqa: E402
from benchmarks.turns import holding, side_command, time_in_turn  # noqa: E402
from benchmarks.watch import watch  # noqa: E402

CLAIM = "latency of tuned ResNet-50, ours / onnxruntime's on the same cores, is at most 2.0"
MODELS = {True: ("resnet18",), False: ("resnet50", "bert-base")}  # by --quick
BUDGETS = {True: "90s", False: "10m"}
ROUNDS = {True: 15, False: 40}
SIDES = ("tune-farm", "onnxruntime")
#: PyTorch as people call it, and through its own compiler.
TORCH_MODES = ("eager", "compiled")
TIMEOUT_SECONDS = 3600.0


def tune(model: str, budget: str, seed: int, out: Path, environment: dict[str, str]) -> float:
    """Run the command; seconds from start to end."""
    words = f"run {model} --device cpu --sm-share 100 --clients 1 --budget {budget} --seed {seed}"
    command = [sys.executable, "-m", "tune_farm", *words.split(), "--format", "json"]
    run = watch(
        [*command, "--no-memory", "--allow-partial", "--out", str(out)],
        environment=environment,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    return run.seconds


def knows_torch(python: str) -> bool:
    """Whether an interpreter has what PyTorch's models need."""
    probe = "import torch, torchvision, transformers"
    return subprocess.run([python, "-c", probe], capture_output=True, check=False).returncode == 0


def torch_commands(python: str, model: str) -> dict[str, list[str]]:
    script = str(ROOT / "benchmarks" / "torch_latency.py")
    return {f"PyTorch {mode}": [python, script, mode, model] for mode in TORCH_MODES}


def latencies(
    commands: dict[str, list[str]], environment: dict[str, str], rounds: int
) -> dict[str, list[float]]:
    """Seconds of each run of each side; one runs at a time."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(holding(command, environment)) for command in commands.values()
        ]
        return dict(zip(commands, time_in_turn(processes, rounds), strict=True))


def rows_of(
    model: str, seconds: dict[str, list[float]], summary: dict[str, Any]
) -> list[dict[str, Any]]:
    """The table of one model."""
    reference = statistics.median(seconds["onnxruntime"])
    rows = []
    for side, runs in seconds.items():
        quarters = statistics.quantiles(runs, n=4)
        rows.append(
            {
                "model": model,
                "side": side,
                "median_ms": round(statistics.median(runs) * 1e3, 2),
                "quartiles_ms": f"{quarters[0] * 1e3:.1f}-{quarters[2] * 1e3:.1f}",
                "times_onnxruntime": round(statistics.median(runs) / reference, 3),
                "runs": len(runs),
            }
        )
    untuned = summary["end_to_end"] and summary["end_to_end"]["baseline_seconds"]
    rows.append(
        {
            "model": model,
            "side": "TVM, untuned (from the run)",
            "median_ms": round(untuned * 1e3, 2) if untuned else None,
            "quartiles_ms": None,
            "times_onnxruntime": round(untuned / reference, 3) if untuned else None,
            "runs": None,
        }
    )
    return rows


def profile(model: str, out: Path, environment: dict[str, str]) -> list[dict[str, Any]]:
    """Seconds by operator of both sides, each operator where the model calls it."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.by_operator", model, str(out)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["rows"]
    return rows


def slower_operators(model: str, rows: list[dict[str, Any]]) -> list[str]:
    """Which operators take longer than onnxruntime's, and how fast each side computes them."""
    own, other = SIDES
    sums = {side: sum(row[side]["seconds"] for row in rows) for side in SIDES}
    paired = [row for row in rows if all(row[side]["seconds"] for side in SIDES)]
    paired.sort(key=lambda row: row[other]["seconds"] - row[own]["seconds"])
    losing = [row for row in paired if row[own]["seconds"] > 1.05 * row[other]["seconds"]]
    products = [row for row in paired if row["products"] > 1]
    best = max((rate(row, own) for row in products), default=0.0)
    shown = [
        f"{row[own]['name']} {row[own]['calls']} calls {row[own]['seconds'] * 1e3:.2f} ms against "
        f"{row[other]['seconds'] * 1e3:.2f} ms"
        + (
            f" ({rate(row, own):.0f} against {rate(row, other):.0f} GFLOP/s of direct products)"
            if row["products"] > 1
            else " (all that sums up no products)"
        )
        for row in losing[:5]
    ]
    return [
        f"{model}, by operator where the model calls it: {sums[own] * 1e3:.1f} ms against "
        f"{sums[other] * 1e3:.1f} ms; slower than onnxruntime's are {len(losing)} of "
        f"{len(paired)}: "
        + ("; ".join(shown) or "none")
        + f"; our best product reaches {best:.0f} GFLOP/s",
    ]


def rate(row: dict[str, Any], side: str) -> float:
    """GFLOP/s, as if each product were computed directly."""
    flops = 2.0 * row["elements"] * row["products"] * row[side]["calls"]
    return float(flops / row[side]["seconds"] / 1e9)


def ratios(model: str, seconds: dict[str, list[float]]) -> dict[str, float]:
    """Ours over each rival's; onnxruntime's is the one that the claim is about."""
    medians = {side: statistics.median(runs) for side, runs in seconds.items()}
    name = model.replace("-", "_")
    found = {}
    for side in list(medians)[1:]:
        rival = "" if side == "onnxruntime" else f"_{side.replace(' ', '_').lower()}"
        found[f"{name}{rival}_latency_ratio"] = medians[SIDES[0]] / medians[side]
    return found


def budget_of(run: Path) -> str:
    """What the run was given."""
    seconds = tomllib.loads((run / "config.toml").read_text()).get("budget_seconds")
    return "no limit of time" if seconds is None else f"{seconds:.0f} s"


def notes_of(model: str, summary: dict[str, Any], budget: str) -> list[str]:
    return [
        f"{model}: 'tune-farm run {model} --sm-share 100', {budget}: "
        f"{summary['trials']['measured']} candidates measured, tensors {summary['layout']}, "
        f"{summary['wall_seconds']:.0f} s from start to end",
        f"{model}: costliest operators: {costliest(summary)}",
    ]


def costliest(summary: dict[str, Any]) -> str:
    """The operators that take most of the tuned model's time."""
    tasks = [
        task for task in summary["tasks"] if task["best_seconds"] and task["state"] != "unused"
    ]
    tasks.sort(key=lambda task: -task["weight"] * task["best_seconds"])
    shown = (
        f"{task['name']} {task['weight']} calls of {task['best_seconds'] * 1e3:.2f} ms"
        for task in tasks[:5]
    )
    return ", ".join(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="resnet18, 90 s: under 4 minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    parser.add_argument("--budget", help="of each run; 10m if left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", help="names, separated by commas")
    parser.add_argument(
        "--runs",
        nargs="+",
        type=Path,
        metavar="DIR",
        help="run directories of these models in the place of new runs",
    )
    parser.add_argument(
        "--torch",
        default=sys.executable,
        metavar="PYTHON",
        help="an interpreter with torch, torchvision and transformers; this one if left out",
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(f"ended by signal {number}"))
    models = arguments.models.split(",") if arguments.models else MODELS[arguments.quick]
    budget = arguments.budget or BUDGETS[arguments.quick]
    environment = {"PYTHONPATH": str(ROOT), "TVM_NUM_THREADS": str(len(os.sched_getaffinity(0)))}
    has_torch = knows_torch(arguments.torch)
    rows: list[dict[str, Any]] = []
    results: dict[str, float] = {}
    notes = [
        "all sides: the same graph and sizes, fp32, all cores, one run at a time",
        "PyTorch: torchvision's or transformers' model with weights of its own, as it is and "
        "through torch.compile"
        if has_torch
        else "PyTorch: skipped, torch, torchvision and transformers are not installed",
    ]
    for place, model in enumerate(models):
        with tempfile.TemporaryDirectory() as folder:
            out = arguments.runs[place] if arguments.runs else Path(folder) / "run"
            if not arguments.runs:
                print(f"tuning {model} for {budget} …", file=sys.stderr, flush=True)
                tune(model, budget, arguments.seed, out, environment)
            summary = json.loads((out / "summary.json").read_text())
            commands = {side: side_command(side, model, out) for side in SIDES}
            if has_torch:
                commands |= torch_commands(arguments.torch, model)
            seconds = latencies(commands, environment, ROUNDS[arguments.quick])
            notes += notes_of(model, summary, budget_of(out))
            notes += slower_operators(model, profile(model, out, environment))
        rows += rows_of(model, seconds, summary)
        results |= ratios(model, seconds)
    report = Report(
        claim=CLAIM,
        quick=arguments.quick,
        simulated=False,
        results=results,
        rows=rows,
        notes=notes,
    )
    print_report(report)
    if arguments.json:
        write_report(report, arguments.json)


if __name__ == "__main__":
    main()
