"""Claim: at least 97% of the drafts that pass the limits on arrays are accepted by TVM.

And what the arrays say of a CUDA kernel's launch is what the lowered kernel has, to the byte.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[0:0] = [] if str(ROOT) in sys.path else [str(ROOT)]  # also as a plain script

from benchmarks.h100 import H100, H100_TARGET_JSON  # noqa: E402
from benchmarks.launches import Launch, launches_of  # noqa: E402
from benchmarks.operators import (  # noqa: E402
    Selection,
    grouped_convolution,
    half_convolution,
    half_product,
    model_tasks,
)
from benchmarks.report import Report, print_report, write_report  # noqa: E402
from tune_farm.client.devices.cpu import cpu_device, usable_cores  # noqa: E402
from tune_farm.client.devices.cpu_core import cpu_core  # noqa: E402
from tune_farm.tuner.predictor.gpu_laws import gpu_tiles  # noqa: E402
from tune_farm.tuner.predictor.machine import Cpu, Gpu  # noqa: E402
from tune_farm.tuner.predictor.tile import TilePredictor  # noqa: E402
from tune_farm.tuner.space.design import DesignSpace, Plot  # noqa: E402
from tune_farm.tuner.space.sketch import Genes  # noqa: E402
from tune_farm.tuner.space.traces import replay  # noqa: E402
from tune_farm.tuner.types import Candidate, Task  # noqa: E402

CLAIM = "accepted by TVM's postprocessors / passed the limits on arrays, is at least 0.97"
SELECTIONS = (
    # Convolutions: 7x7, 3x3 with and without stride, 1x1, with all epilogues; pooling; reductions.
    Selection(model="resnet50", tasks=(0, 1, 2, 3, 5, 25, 26)),
    # Layer norm, dense, batch matmul, softmax, and a dense layer whose epilogue is not fused.
    Selection(model="bert-base", tasks=(4, 6, 9, 10, 14)),
)
#: Draws of a sketch that fit, of one thousand: a few dozen. So many are tried, then it is over.
MOST_DRAWN = 400_000
CHUNK = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One task on one target."""

    target: str
    task: str
    drawn: int
    drafts: int  # that passed the limits
    accepted: int
    compared: int  # lowered to the end
    not_lowered: int  # accepted by the postprocessors, then refused by a later pass of TVM
    mismatches: int
    seconds: float


def judge(target: str, task: Task, machine: Cpu | Gpu, drafts: int, sample: int) -> Verdict:
    """Draw drafts that pass, let TVM look at each, and compare the launches of a few."""
    started = time.monotonic()
    space = DesignSpace(task, seed=1)
    predictor = TilePredictor(machine, threads=1)
    rng = np.random.default_rng(1)
    drawn = passed = accepted = compared = not_lowered = mismatches = 0
    share = -(-drafts // len(space.plots))
    for index, plot in enumerate(space.plots):
        genes, tried = passing(predictor, plot, share, rng)
        drawn += tried
        passed += len(genes)
        chosen = set(range(0, len(genes), max(1, len(genes) * len(space.plots) // sample)))
        for row, each in enumerate(genes):
            candidate = space.realize(index, each)
            accepted += candidate is not None
            if candidate is not None and gpu_tiles(plot, genes[:1]) is not None and row in chosen:
                launches = lowered(task, candidate)
                compared += launches is not None
                not_lowered += launches is None
                mismatches += launches not in (None, predicted(plot, each))
    return Verdict(
        target=target,
        task=task.name,
        drawn=drawn,
        drafts=passed,
        accepted=accepted,
        compared=compared,
        not_lowered=not_lowered,
        mismatches=mismatches,
        seconds=time.monotonic() - started,
    )


def passing(
    predictor: TilePredictor, plot: Plot, count: int, rng: np.random.Generator
) -> tuple[Genes, int]:
    """Different drafts that pass the limits, as many as there are; and how many were drawn."""
    found: Genes = np.empty((0, len(plot.sketch.decisions)), dtype=np.int64)
    drawn = 0
    while len(found) < min(count, plot.sketch.size) and drawn < MOST_DRAWN:
        drawn += CHUNK
        genes = plot.sketch.draw(CHUNK, rng)
        found = np.unique(np.concatenate([found, genes[predictor.fits(plot, genes)]]), axis=0)
    return found[rng.permutation(len(found))][:count], drawn


def predicted(plot: Plot, genes: Genes) -> list[Launch]:
    kernels = gpu_tiles(plot, genes[None])
    assert kernels is not None
    return [
        Launch(
            blocks=int(tiles.blocks[0]),
            threads=int(tiles.threads[0]),
            shared_bytes=int(tiles.shared_bytes[0]),
        )
        for tiles in kernels
    ]


def lowered(task: Task, candidate: Candidate) -> list[Launch] | None:
    """The launches in the end; None where one of TVM's passes fails on the schedule."""
    import tvm

    module = replay(tvm.ir.load_json(task.module_json), candidate.trace_json).mod
    try:
        return launches_of(module, tvm.target.Target(json.loads(task.target_json)))
    except RuntimeError as problem:  # the root of TVM's own errors
        print(f"{task.name}: {str(problem).splitlines()[0]}", file=sys.stderr)
        return None


def subjects() -> Iterator[tuple[str, Task, Cpu | Gpu]]:
    cores = len(usable_cores())
    mcpu = cpu_device().device_class.architecture
    llvm = json.dumps({"kind": "llvm", "mcpu": mcpu, "num-cores": cores})
    machines: dict[str, Cpu | Gpu] = {llvm: cpu_core(cores), H100_TARGET_JSON: H100}
    for target_json, machine in machines.items():
        tasks = model_tasks(SELECTIONS, target_json)
        tasks += [grouped_convolution(groups, target_json) for groups in (4, 64)]
        target = json.loads(target_json)
        if target["kind"] == "cuda":  # with sketches for tensor cores
            tasks += [half_product(target_json), half_convolution(target_json)]
        name = f"{target['kind']} {target.get('mcpu') or target['arch']}"
        yield from ((name, task, machine) for task in tasks)


def report_of(verdicts: list[Verdict], quick: bool) -> Report:
    drafts = sum(each.drafts for each in verdicts)
    return Report(
        claim=CLAIM,
        quick=quick,
        simulated=False,
        results={
            "accepted_fraction": sum(each.accepted for each in verdicts) / drafts,
            "lowest_accepted_fraction": min(each.accepted / each.drafts for each in verdicts),
            "mismatches": sum(each.mismatches for each in verdicts),
            "compared": sum(each.compared for each in verdicts),
            "not_lowered": sum(each.not_lowered for each in verdicts),
            "drafts": drafts,
        },
        rows=[_row(each) for each in verdicts],
        notes=[
            "drafts: drawn uniformly, from each sketch in equal numbers, no two the same; fewer "
            "where a task has no more",
            "mismatches: of the compared, those where threads, blocks or shared-memory bytes of a "
            "kernel after all of TVM's lowering differ from what the arrays say (CUDA); "
            "not_lowered: accepted, but a later pass of TVM fails, which is a build error",
        ],
    )


def _row(verdict: Verdict) -> dict[str, object]:
    return {
        "target": verdict.target,
        "task": verdict.task,
        "drawn": verdict.drawn,
        "drafts": verdict.drafts,
        "accepted": verdict.accepted,
        "accepted_fraction": round(verdict.accepted / verdict.drafts, 4),
        "compared": verdict.compared,
        "not_lowered": verdict.not_lowered,
        "mismatches": verdict.mismatches,
        "seconds": round(verdict.seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer drafts, under 4 minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    parser.add_argument("--drafts", type=int, help="of each task and target")
    arguments = parser.parse_args()
    drafts = arguments.drafts or (60 if arguments.quick else 1000)
    sample = 6 if arguments.quick else 20
    verdicts = []
    for target, task, machine in subjects():
        # Traces for tensor cores are four times as long as others, and as slow to replay.
        asked = drafts * 2 // 3 if arguments.quick and task.name.endswith("_half") else drafts
        verdicts.append(judge(target, task, machine, asked, sample))
        print(verdicts[-1], file=sys.stderr, flush=True)
    report = report_of(verdicts, arguments.quick)
    print_report(report)
    if arguments.json:
        write_report(report, arguments.json)


if __name__ == "__main__":
    main()
