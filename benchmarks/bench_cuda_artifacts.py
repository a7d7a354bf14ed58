"""Claim: every operator of ResNet-50 and BERT builds for sm_80, sm_90 and sm_100, no GPU needed.

Of each operator and architecture the untuned schedule and the best of the drafts by prediction are
compiled to a shared library with its cubin, and what the kernels take is read back.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[0:0] = [] if str(ROOT) in sys.path else [str(ROOT)]  # also as a plain script

from benchmarks.h100 import H100  # noqa: E402
from benchmarks.operators import whole_model_tasks  # noqa: E402
from benchmarks.report import Report, print_report, write_report  # noqa: E402
from tune_farm.client.devices.cpu import usable_cores  # noqa: E402
from tune_farm.client.sim.gpus import simulated_gpu  # noqa: E402
from tune_farm.tuner.build.pool import BuildOptions, BuildPool  # noqa: E402
from tune_farm.tuner.interfaces import Artifact, BuildFailure  # noqa: E402
from tune_farm.tuner.loop import untuned  # noqa: E402
from tune_farm.tuner.predictor.cuda_target import cuda_target  # noqa: E402
from tune_farm.tuner.predictor.machine import Gpu  # noqa: E402
from tune_farm.tuner.predictor.tile import TilePredictor  # noqa: E402
from tune_farm.tuner.strategy.draft import DraftOptions, DraftStrategy  # noqa: E402
from tune_farm.tuner.types import Candidate, Fault, Task  # noqa: E402

CLAIM = "operators of ResNet-50 and BERT that build for sm_80, sm_90 and sm_100: all"
MODELS = {True: ("resnet18",), False: ("resnet50", "bert-base")}  # by --quick
#: Blackwell's limits of a block and an SM are Hopper's (CUDA C++ Programming Guide, "Technical
#: Specifications per Compute Capability", 10.0); only limits matter here.
MACHINES: dict[str, Gpu] = {
    "8.0": simulated_gpu("sim:a100").machine,
    "9.0": H100,
    "10.0": replace(H100, sms=148, total_sms=148),
}
#: Drafts of each operator that are compiled until one is worth a measurement.
_TRIES = 6


def drafts(task: Task, machine: Gpu) -> list[Candidate]:
    """The best of many by prediction."""
    strategy = DraftStrategy(
        task,
        predictor=TilePredictor(machine, threads=1),
        options=DraftOptions(machine=machine, explore=0.0),
        seed=0,
    )
    return [proposal.candidate for proposal in strategy.propose(_TRIES)]


def build(
    pool: BuildPool, task: Task, machine: Gpu
) -> Iterator[tuple[str, Artifact | BuildFailure]]:
    """Untuned, then the first draft that is worth a measurement, or the last that is not."""
    pool.select(task)
    for item in pool.build([untuned(task)]):
        yield "untuned", item
    for place, candidate in enumerate(found := drafts(task, machine)):
        (item,) = pool.build([candidate])
        if isinstance(item, Artifact) or place == len(found) - 1:
            yield "draft", item
            return
        if item.failure.fault is not Fault.PRUNED_STATIC:
            yield "draft", item
            return


def row_of(capability: str, task: Task, what: str, item: Artifact | BuildFailure) -> dict[str, Any]:
    kernels = item.kernels if isinstance(item, Artifact) else ()
    return {
        "architecture": f"sm_{capability.replace('.', '')}",
        "operator": task.name,
        "schedule": what,
        "built": isinstance(item, Artifact),
        "kernels": len(kernels),
        "registers": max((each.registers for each in kernels), default=None),
        "shared_bytes": max((each.shared_bytes for each in kernels), default=None),
        "spilled_bytes": sum(each.spilled_bytes for each in kernels) if kernels else None,
        "why_not": None if isinstance(item, Artifact) else item.failure.detail.splitlines()[0],
    }


def rows_for(capability: str, models: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    machine = MACHINES[capability]
    target = json.dumps(cuda_target(machine, capability))
    rows = []
    pool = BuildPool(
        cores=usable_cores(),
        scratch=folder,
        options=BuildOptions(timeout_seconds=120.0),
        name=f"sm{capability.replace('.', '')}",
        should_stop=lambda: False,
    )
    try:
        for task in whole_model_tasks(models, target):
            for what, item in build(pool, task, machine):
                rows.append(row_of(capability, task, what, item))
                if isinstance(item, Artifact):
                    item.path.unlink()
    finally:
        pool.close()
    return rows


def report_of(rows: list[dict[str, Any]], quick: bool) -> Report:
    built = [row for row in rows if row["built"]]
    architectures = sorted({row["architecture"] for row in rows})
    table = []
    for architecture in architectures:
        own = [row for row in rows if row["architecture"] == architecture]
        done = [row for row in own if row["built"]]
        table.append(
            {
                "architecture": architecture,
                "artifacts": len(own),
                "built": len(done),
                "most_registers": max(row["registers"] for row in done),
                "most_shared_bytes": max(row["shared_bytes"] for row in done),
                "spilling": sum(bool(row["spilled_bytes"]) for row in done),
            }
        )
    failed = [row for row in rows if not row["built"]]
    return Report(
        claim=CLAIM,
        quick=quick,
        simulated=False,
        results={"built_fraction": len(built) / len(rows)},
        rows=table,
        notes=[
            "compiled and inspected here; nothing ran: no GPU was at hand",
            *(
                f"{row['architecture']} {row['operator']} ({row['schedule']}): {row['why_not']}"
                for row in failed
            ),
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="ResNet-18's operators, one target")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for capability in list(MACHINES)[1:2] if arguments.quick else MACHINES:
        print(f"compute capability {capability} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            rows += rows_for(capability, MODELS[arguments.quick], Path(folder))
    report = report_of(rows, arguments.quick)
    print_report(report)
    if arguments.json:
        write_report(report, arguments.json)


if __name__ == "__main__":
    main()
