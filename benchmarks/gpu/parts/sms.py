"""What a percentage gives: the SMs that a process is told, and those that its blocks run on."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from benchmarks.gpu.lab import Client, Earlier, Findings, Lab, SkippedError, ask
from benchmarks.gpu.messages import Refused, RollCall, Rolled
from benchmarks.gpu.parts.driver import BLOCKS_PER_SM
from benchmarks.gpu.sharing import Sharing, sharing

PERCENTS = (10, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90, 100)


def run(lab: Lab, earlier: Earlier) -> Findings:
    """One client after the other; at the end two that have half of the GPU each."""
    del earlier
    with sharing(lab) as way:
        rows = [_row(lab, way, percent) for percent in PERCENTS]
        overlap = _overlap(lab, way)
    in_force = [row for row in rows if row["visible_sms"] is not None]
    if not in_force:
        raise SkippedError(rows[0]["note"])
    table = ", ".join(f"{row['percent']}% {row['visible_sms']}" for row in in_force)
    results: dict[str, float] = {f"at_{row['percent']}": row["visible_sms"] for row in in_force}
    if overlap is not None:
        results["two_halves_share"] = overlap
    return Findings(
        says=f"{way.kind}: {table}",
        results=results,
        rows=rows,
        notes=[f"green contexts in the place of MPS: {way.why}"] if way.why else [],
    )


def _row(lab: Lab, way: Sharing, percent: int) -> dict[str, Any]:
    total = lab.device.sm_count
    row: dict[str, Any] = {
        "kind": way.kind,
        "percent": percent,
        "most_sms": math.ceil(percent / 100 * total),
        "visible_sms": None,
        "used_sms": None,
        "smids": "",
        "note": "",
    }
    try:
        with way.client(percent) as (client, visible):
            row["visible_sms"] = visible
            smids = _smids(lab, client)
    except SkippedError as reason:
        return {**row, "note": str(reason)}
    return {**row, "used_sms": len(smids), "smids": ranges(smids)}


def _smids(lab: Lab, client: Client) -> tuple[int, ...]:
    answer = ask(client, RollCall(code=lab.code, blocks=BLOCKS_PER_SM * lab.device.sm_count))
    if isinstance(answer, Refused):
        raise SkippedError(answer.text)
    assert isinstance(answer, Rolled)
    return answer.smids


def _overlap(lab: Lab, way: Sharing) -> int | None:
    """SMs that two clients of 50% used both: a percentage is a limit, and reserves nothing."""
    with contextlib.suppress(SkippedError), way.client(50) as (one, _), way.client(50) as (two, _):
        return len(set(_smids(lab, one)) & set(_smids(lab, two)))
    return None


def ranges(numbers: tuple[int, ...]) -> str:
    """Sorted numbers in short: "0-3,8"."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1] = [found[-1][0], number]
        else:
            found.append([number])
    return ",".join("-".join(map(str, each)) for each in found)
