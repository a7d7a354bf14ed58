"""Claim: a tuned ResNet-50 takes at most twice onnxruntime's time on the same cores.

Each model is tuned by the command that users type; then both builds run in turn, one at a time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[0:0] = [] if str(ROOT) in sys.path else [str(ROOT)]  # also as a plain script

from benchmarks.report import Report, print_report, write_report  # noqa: E402
from benchmarks.turns import holding, time_in_turn  # noqa: E402
from benchmarks.watch import watch  # noqa: E402

CLAIM = "latency of tuned ResNet-50, ours / onnxruntime's on the same cores, is at most 2.0"
MODELS = {True: ("resnet18",), False: ("resnet50", "bert-base")}  # by --quick
BUDGETS = {True: "90s", False: "10m"}
ROUNDS = {True: 15, False: 40}
SIDES = ("tune-farm", "onnxruntime")
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
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(f"ended by signal {number}"))
    models = arguments.models.split(",") if arguments.models else MODELS[arguments.quick]
    budget = arguments.budget or BUDGETS[arguments.quick]
    environment = {"PYTHONPATH": str(ROOT), "TVM_NUM_THREADS": str(len(os.sched_getaffinity(0)))}
    rows: list[dict[str, Any]] = []
    results: dict[str, float] = {}
    notes = [
        f"tuned by 'tune-farm run MODEL --sm-share 100 --budget {budget} --seed {arguments.seed}'",
        "both sides: the same graph, weights and inputs, fp32, all cores, one run at a time",
    ]
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            print(f"tuning {model} for {budget} …", file=sys.stderr, flush=True)
            wall = tune(model, budget, arguments.seed, out, environment)
            summary = json.loads((out / "summary.json").read_text())
            with (
                holding("tune-farm", model, out, environment) as ours,
                holding("onnxruntime", model, out, environment) as theirs,
            ):
                times = time_in_turn((ours, theirs), ROUNDS[arguments.quick])
        seconds = dict(zip(SIDES, times, strict=True))
        rows += rows_of(model, seconds, summary)
        medians = {side: statistics.median(runs) for side, runs in seconds.items()}
        name = model.replace("-", "_")
        results[f"{name}_latency_ratio"] = medians["tune-farm"] / medians["onnxruntime"]
        notes += [
            f"{model}: {summary['trials']['measured']} candidates measured, tensors "
            f"{summary['layout']}, {wall:.0f} s from start to end",
            f"{model}: costliest operators: {costliest(summary)}",
        ]
    if importlib.util.find_spec("torch") is None:
        notes.append("PyTorch: skipped, torch is not installed")
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
