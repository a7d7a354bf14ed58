"""Kills runs at random moments, resumes each, and shows what was lost: nothing, it is claimed.

A script, not a test: `python -m tests.e2e.kill_campaign --kills 20 --model resnet18 --budget 2m`.
Each kill has a run of its own, so that each is followed by a resume up to the run's end.
"""

# ruff: noqa: T201 - it talks to whoever runs it

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.report import Report, print_report, write_report
from tests.e2e.command import Command, keys, outcomes
from tests.e2e.kills import Victim, kill

LEFTOVER_SECONDS = 10.0
TIMEOUT_SECONDS = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What every run of the campaign is."""

    model: str
    budget: str
    folder: Path
    more: tuple[str, ...]  # further options of `tune-farm run`

    def begin(self, out: Path, *, resume: bool) -> Command:
        """Start or resume the run of a directory."""
        words = ["run", self.model, "--budget", self.budget, "--out", str(out), *self.more]
        words += ["--resume"] if resume else []
        return Command(*words, "--format", "json", cwd=self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kill and what came of it."""

    kill: int
    victim: str
    after_seconds: float  # since the command's start
    records_before: int  # in the journal at the kill
    records_after: int  # at the end of the resumed run
    lost: int
    duplicates: int
    leftovers: int  # processes still there 10 s after the death, or after the end
    exit_code: int
    model_seconds: float | None  # by the best of each operator, weighted

    @property
    def is_good(self) -> bool:
        """Whether all is as claimed."""
        return not (self.lost or self.duplicates or self.leftovers or self.exit_code)


def run_whole(plan: Plan) -> tuple[float, float | None]:
    """Run without a kill; returns how long it took and how long the model then takes."""
    out, begun = plan.folder / "uninterrupted", time.monotonic()
    with plan.begin(out, resume=False) as run:
        code = run.wait(TIMEOUT_SECONDS)
        print(f"without a kill: exit code {code}", file=sys.stderr)
    return time.monotonic() - begun, model_seconds(out)


def run_killed(plan: Plan, number: int, victim: Victim, moment: float, dice: random.Random) -> Row:
    """Kill one run at a moment, resume it to its end, and compare."""
    out = plan.folder / f"killed-{number}"
    leftovers: list[str] = []
    with plan.begin(out, resume=False) as run:
        begun = time.monotonic()
        while time.monotonic() - begun < moment and run.is_running:
            time.sleep(0.05)
        # A client or a child may not be there yet, or be between two lives.
        while run.is_running and not kill(run, victim, dice):
            time.sleep(0.2)
        at = time.monotonic() - begun
        if victim.ends_the_command:
            run.wait(TIMEOUT_SECONDS)
        before = outcomes(out)
        run.wait(TIMEOUT_SECONDS)
        leftovers += run.leftovers(LEFTOVER_SECONDS)
    # Killed before it had a journal: there is nothing to resume, and nothing to lose.
    with plan.begin(out, resume=(out / "records.jsonl").exists()) as run:
        code = run.wait(TIMEOUT_SECONDS)
        leftovers += run.leftovers(LEFTOVER_SECONDS)
        if code:
            print(run.stderr, file=sys.stderr)
    for line in leftovers:
        print(f"kill {number}: left: {line}", file=sys.stderr)
    after = outcomes(out)
    return Row(
        kill=number,
        victim=victim.value,
        after_seconds=round(at, 1),
        records_before=len(before),
        records_after=len(after),
        lost=len(set(keys(before)) - set(keys(after))),
        duplicates=len(after) - len(set(keys(after))),
        leftovers=len(leftovers),
        exit_code=code,
        model_seconds=model_seconds(out),
    )


def model_seconds(out: Path) -> float | None:
    """The time of one inference by the best of each operator; None without a summary."""
    try:
        tasks = json.loads((out / "summary.json").read_text())["tasks"]
    except FileNotFoundError:
        return None
    known = [
        (task["weight"], [s for s in (task["baseline_seconds"], task["best_seconds"]) if s])
        for task in tasks
    ]
    return math.fsum(weight * min(seconds) for weight, seconds in known if seconds)


def report_of(plan: Plan, rows: list[Row], whole: float | None) -> Report:
    """The campaign's table."""
    times = [row.model_seconds for row in rows if row.model_seconds is not None]
    results: dict[str, float] = {
        "kills": float(len(rows)),
        "records_lost": float(sum(row.lost for row in rows)),
        "records_duplicated": float(sum(row.duplicates for row in rows)),
        "processes_left": float(sum(row.leftovers for row in rows)),
        "bad_exit_codes": float(sum(row.exit_code != 0 for row in rows)),
    }
    if times and whole:
        logs = [math.log(seconds / whole) for seconds in times]
        results["latency_ratio"] = math.exp(math.fsum(logs) / len(logs))
    return Report(
        claim="SIGKILL of any part loses no record, repeats none, and leaves no process",
        quick=len(rows) < 20,
        simulated=False,
        results=results,
        rows=[asdict(row) for row in rows],
        notes=[
            f"{plan.model}, budget {plan.budget}, options: {' '.join(plan.more) or 'none'}",
            "model_seconds: the best of each operator times its calls; without a kill: "
            + (f"{whole:.6f}" if whole else "unknown"),
            "latency_ratio: its geometric mean over the killed runs / that of the run without one",
        ],
    )


def main() -> None:
    """Run the campaign; the exit code is 1 if anything is not as claimed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--budget", default="2m", help="as `tune-farm run` takes it")
    parser.add_argument("--seed", type=int, default=0, help="of victims and moments")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    parser.add_argument("more", nargs="*", help="after --: options for `tune-farm run`")
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    victims = [list(Victim)[index % len(Victim)] for index in range(arguments.kills)]
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(
            model=arguments.model,
            budget=arguments.budget,
            folder=Path(folder),
            more=tuple(arguments.more),
        )
        whole_seconds, whole = run_whole(plan)
        rows = []
        for number, victim in enumerate(victims):
            rows.append(run_killed(plan, number, victim, dice.uniform(0, whole_seconds), dice))
            print(rows[-1], file=sys.stderr)
    report = report_of(plan, rows, whole)
    print_report(report)
    if arguments.json:
        write_report(report, arguments.json)
    sys.exit(0 if all(row.is_good for row in rows) else 1)


if __name__ == "__main__":
    main()
