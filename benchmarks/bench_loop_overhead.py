"""Claim: this loop measures at least twice as many candidates a second as TVM's own.

Same operators, target, cores, trials and timed milliseconds; one side after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[0:0] = [] if str(ROOT) in sys.path else [str(ROOT)]  # also as a plain script

from benchmarks.report import Report, print_report, write_report  # noqa: E402
from benchmarks.stock_metaschedule import StockOptions  # noqa: E402
from benchmarks.watch import Watched, watch  # noqa: E402
from tune_farm.tuner.measure.messages import Timing  # noqa: E402
from tune_farm.tuner.strategy.metaschedule import MetaScheduleOptions  # noqa: E402

CLAIM = "measured candidates a second, ours / TVM's tune_tasks, is at least 2"
CLIENTS = 2
TIMEOUT_SECONDS = 3600.0
#: On a slow or busy machine TVM's builds time out one after the other: it is stopped then.
STOCK_LIMIT_SECONDS = {True: 150.0, False: 1800.0}  # by --quick


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What one side did, on the clock that starts with its process."""

    name: str
    measured: int
    cut_short: bool  # stopped at the limit
    first_seconds: float  # until the first candidate was measured
    last_seconds: float  # until the last one was; both are the limit if there was none
    peak_memory_bytes: int

    @property
    def throughput(self) -> float:
        """Measured candidates a second, start-up included; none at all counts as one."""
        return max(1, self.measured) / self.last_seconds

    @property
    def warm_throughput(self) -> float | None:
        """Measured candidates a second between the first and the last; None if cut short."""
        if self.cut_short or self.measured < 2:
            return None  # its last batches are missing: what is left tells nothing
        return (self.measured - 1) / (self.last_seconds - self.first_seconds)


def options_of(quick: bool, seed: int) -> StockOptions:
    search, timing = MetaScheduleOptions(), Timing()
    return StockOptions(
        model="resnet18",
        tasks=(2, 4) if quick else (2, 4, 6, 12),
        share_percent=50,
        clients=CLIENTS,
        trials_per_task=16 if quick else 48,
        batch=16,
        population=search.population,
        generations=search.generations,
        repeats=timing.repeats,
        repeat_milliseconds=round(timing.repeat_seconds * 1000),
        build_timeout_seconds=120.0,
        seed=seed,
    )


def run_stock(options: StockOptions, environment: dict[str, str], limit_seconds: float) -> Side:
    command = [sys.executable, "-m", "benchmarks.stock_metaschedule", json.dumps(asdict(options))]
    threads = str(max(1, len(os.sched_getaffinity(0)) * options.share_percent // 100))
    run = watch(
        command,
        environment={**environment, "TVM_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
        timeout_seconds=limit_seconds,
    )
    ended = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    return _side("TVM tune_tasks", run, [each["time"] for each in ended if each.get("measured")])


def run_ours(options: StockOptions, environment: dict[str, str]) -> Side:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        tasks = ",".join(map(str, options.tasks or ()))
        limits = f"--tasks {tasks} --trials-per-task {options.trials_per_task}"
        farm = f"--device cpu --sm-share {options.share_percent} --clients {options.clients}"
        search = f"--population {options.population} --seed {options.seed} --format json"
        words = f"run {options.model} {limits} {farm} {search} --allow-partial".split()
        words += [
            "--strategy",
            "metaschedule",
            "--layout",
            "given",
            "--no-fast-math",
        ]  # as the other side
        run = watch(
            [sys.executable, "-m", "tune_farm", *words, "--out", str(out)],
            environment=environment,
            timeout_seconds=TIMEOUT_SECONDS,
        )
        rows = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()[1:]]
    measured = [row for row in rows if row["purpose"] == "search" and row["outcome"] == "measured"]
    return _side("tune-farm", run, [row["time"] for row in measured])


def _side(name: str, run: Watched, times: list[float]) -> Side:
    if not times and not run.timed_out:
        raise SystemExit(f"{name} measured nothing: {run.stderr[-2000:]}")
    ends = [time - run.started for time in times] or [run.seconds]
    return Side(
        name=name,
        measured=len(times),
        cut_short=run.timed_out,
        first_seconds=min(ends),
        last_seconds=max(ends),
        peak_memory_bytes=run.peak_memory_bytes,
    )


def report_of(ours: Side, stock: Side, options: StockOptions, quick: bool) -> Report:
    results = {
        "throughput_ratio": ours.throughput / stock.throughput,
        "first_measurement_ratio": ours.first_seconds / stock.first_seconds,
        "peak_memory_ratio": ours.peak_memory_bytes / stock.peak_memory_bytes,
    }
    if ours.warm_throughput and stock.warm_throughput:
        results["warm_throughput_ratio"] = ours.warm_throughput / stock.warm_throughput
    return Report(
        claim=CLAIM,
        quick=quick,
        simulated=False,
        results=results,
        rows=[_row(side) for side in (ours, stock)],
        notes=[
            f"{options.model}, tasks {', '.join(map(str, options.tasks or ()))}, "
            f"{options.trials_per_task} trials each, {len(os.sched_getaffinity(0))} cores, target "
            f"and share of {options.share_percent}%, seed {options.seed}; each ratio is ours / TVM",
            "the clock starts with the process and ends with the last search candidate: model "
            "loading, Ray and worker start count on both sides; re-measuring finalists and the "
            "end-to-end check, which TVM has not, do not",
            f"both: evolutionary search, population {options.population}, XGBoost; until a cost "
            "model has seen 100 candidates TVM evolves towards random scores, ours draws at random",
            f"both time {options.repeats} repeats of {options.repeat_milliseconds} ms; ours also "
            "measures each untuned operator, checks every output, and stops losers after a repeat",
            f"TVM's build limit was raised from 30 s to {options.build_timeout_seconds:.0f} s: it "
            "includes the start of a worker, which on a slow machine takes longer than that",
            f"TVM is stopped after {STOCK_LIMIT_SECONDS[quick]:.0f} s (column cut short); it is "
            "then judged by the time of its last candidate, as if the next had cost nothing",
            "memory is the peak of the proportional set size of the whole process tree",
        ],
    )


def _row(side: Side) -> dict[str, Any]:
    return {
        "side": side.name,
        "measured": side.measured,
        "cut_short": side.cut_short,
        "first_after_seconds": round(side.first_seconds, 2),
        "last_after_seconds": round(side.last_seconds, 2),
        "candidates_per_second": round(side.throughput, 4),
        "warm_candidates_per_second": side.warm_throughput and round(side.warm_throughput, 4),
        "peak_memory_mib": round(side.peak_memory_bytes / 2**20),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two operators, under 4 minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    options = options_of(arguments.quick, arguments.seed)
    environment = {"PYTHONPATH": str(ROOT)}
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(f"ended by signal {number}"))
    print("tune-farm …", file=sys.stderr, flush=True)
    ours = run_ours(options, environment)
    print(f"{ours}\nTVM tune_tasks …", file=sys.stderr, flush=True)
    stock = run_stock(options, environment, STOCK_LIMIT_SECONDS[arguments.quick])
    report = report_of(ours, stock, options, arguments.quick)
    print_report(report)
    if arguments.json:
        write_report(report, arguments.json)


if __name__ == "__main__":
    main()
