"""The libraries that the product ships: do they load, run and compute the same in TVM's runtime?"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from benchmarks.gpu.lab import (
    Client,
    Earlier,
    Findings,
    Lab,
    SkippedError,
    require_attached,
    seconds_of,
    told,
)
from benchmarks.gpu.messages import Ran, RunLibrary
from tune_farm.tuner.measure.tolerance import difference, tolerance


def run(lab: Lab, earlier: Earlier) -> Findings:
    """One library of each operator, against its cubin launched without TVM."""
    del earlier
    operators = lab.operators()
    rows: list[dict[str, Any]] = []
    version = ""
    with lab.alone("cubins") as plain, lab.runtime("libraries") as runtime:
        require_attached(plain)
        for operator in operators:
            place = next(
                (each for each in range(len(operator.schedules)) if lab.library(operator, each)),
                None,
            )
            if place is None:
                continue
            plain_seconds = seconds_of(plain, lab.launch(operator, place))
            ran = _ran(
                runtime,
                RunLibrary(
                    library=lab.library(operator, place),
                    task_id=operator.task_id,
                    arguments=operator.arguments,
                    places=operator.places,
                    seconds=plain_seconds,
                ),
            )
            version = ran.version
            wrong = None
            if not lab.is_simulated:
                right = np.array(operator.reference, dtype=np.float32)
                allowed = tolerance("float32", operator.reduction_length, right)
                wrong = difference(np.array(ran.values, dtype=np.float32), right, allowed)
            seconds = statistics.median(ran.repeats_seconds)
            rows.append(
                {
                    "operator": operator.name,
                    "cubin_seconds": plain_seconds,
                    "library_seconds": seconds,
                    "library_over_cubin": seconds / plain_seconds,
                    "wrong": wrong,
                }
            )
    if not rows:
        raise SkippedError("no library was brought")
    right_ones = sum(row["wrong"] is None for row in rows)
    over = statistics.median(row["library_over_cubin"] for row in rows)
    return Findings(
        says=(
            f"TVM {version}: {right_ones} of {len(rows)} libraries compute what they should, in "
            f"{over:.2f} of the time of their cubins"
        ),
        results={"right": right_ones, "libraries": len(rows), "library_over_cubin": over},
        rows=rows,
    )


def _ran(client: Client, work: RunLibrary) -> Ran:
    return told(client, work, Ran)
