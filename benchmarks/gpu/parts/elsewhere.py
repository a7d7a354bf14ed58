"""Schedules that are best at one share, run at another: is tuning under the share worth it?

Candidates were drafted and compiled beforehand by the product's own pipeline; all of them are timed
at every share, so that the best of each share is known, and what it costs elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.gpu.bundle import Operator
from benchmarks.gpu.lab import Client, Earlier, Findings, Lab, SkippedError, seconds_of, told
from benchmarks.gpu.law import agreement, law_seconds, machine_of
from benchmarks.gpu.messages import Launch, Output, Values
from benchmarks.gpu.sharing import sharing
from tune_farm.tuner.measure.tolerance import difference, tolerance

PERCENTS = (10, 25, 50, 100)

Seconds = NDArray[np.float64]  # (shares, schedules); NaN: it does not run, or is wrong


def run(lab: Lab, earlier: Earlier) -> Findings:
    """Time all schedules at all shares."""
    operators = lab.operators()
    launches = [
        [lab.launch(each, place) for place in range(len(each.schedules))] for each in operators
    ]
    times = [np.full((len(PERCENTS), len(each)), np.nan) for each in launches]
    sms, notes = list[int](), list[str]()
    with sharing(lab) as way:
        for row, percent in enumerate(PERCENTS):
            with way.client(percent) as (client, granted):
                sms.append(granted)
                for operator, own, seconds in zip(operators, launches, times, strict=True):
                    for place, launch in enumerate(own):
                        try:
                            if row == 0:
                                _require_right(lab, client, operator, launch)
                            if row == 0 or np.isfinite(seconds[0, place]):
                                seconds[row, place] = seconds_of(client, launch)
                        except SkippedError as reason:
                            notes.append(f"{launch.name} at {percent}%: {reason}")
    if way.why:
        notes.append(f"green contexts in the place of MPS: {way.why}")
    machine, rows, losses, ranks = machine_of(lab.device, earlier), [], list[Seconds](), []
    for operator, seconds in zip(operators, times, strict=True):
        good = np.flatnonzero(np.isfinite(seconds).all(axis=0))
        if len(good) < 2:
            notes.append(f"{operator.name}: fewer than two schedules ran")
            continue
        laws = [
            [
                law_seconds(operator.schedules[place].tiles, replace(machine, sms=each))
                for place in good
            ]
            for each in sms
        ]
        ranks.append(agreement(laws, seconds[:, good].tolist()).rank)
        loss = losses_of(seconds[:, good])
        losses.append(loss)
        rows += _rows(operator, good, seconds, loss, way.kind, sms)
    if not losses:
        raise SkippedError(notes[0])
    return _findings(losses, ranks, rows, notes, len(operators))


def losses_of(seconds: Seconds) -> Seconds:
    """By what part the best schedule of one share (row) is slower at another than its best.

    Args:
        seconds: (shares, schedules), all finite.
    """
    best = seconds.argmin(axis=1)
    return np.asarray((seconds[:, best] / seconds.min(axis=1)[:, None]).T - 1)


def _require_right(lab: Lab, client: Client, operator: Operator, launch: Launch) -> None:
    if lab.is_simulated:
        return
    argument = next(
        place
        for place, each in enumerate(launch.arguments)
        if getattr(each, "name", "") == f"{operator.task_id} {operator.output}"
    )
    work = Output(launch=launch, argument=argument, places=operator.places)
    actual = np.array(told(client, work, Values).values, dtype=np.float32)
    right = np.array(operator.reference, dtype=np.float32)
    wrong = difference(actual, right, tolerance("float32", operator.reduction_length, right))
    if wrong is not None:
        raise SkippedError(f"WRONG: {wrong}")


def _rows(
    operator: Operator,
    good: NDArray[np.intp],
    seconds: Seconds,
    loss: Seconds,
    kind: str,
    sms: Sequence[int],
) -> list[dict[str, Any]]:
    rows = []
    for row, percent in enumerate(PERCENTS):
        best = int(good[seconds[row, good].argmin()])
        rows.append(
            {
                "operator": operator.name,
                "kind": kind,
                "tuned_at": percent,
                "sms": sms[row],
                "best": operator.schedules[best].id[:6],
                "best_seconds": float(seconds[row, best]),
                "schedules": len(good),
                **{f"slower_at_{each}": float(loss[row, at]) for at, each in enumerate(PERCENTS)},
            }
        )
    return rows


def _findings(
    losses: list[Seconds],
    ranks: list[float],
    rows: list[dict[str, Any]],
    notes: list[str],
    operators: int,
) -> Findings:
    all_losses = np.stack(losses)  # (operators, tuned at, run at)
    from_whole = all_losses[:, -1, :-1]
    return Findings(
        says=(
            f"{len(losses)} of {operators} operators: what is best on the whole GPU is "
            f"{from_whole.mean():.1%} slower on a part than the part's best, at most "
            f"{from_whole.max():.1%}; the law ranks schedules by {np.mean(ranks):.2f}"
        ),
        results={
            "mean_loss": float(all_losses[:, ~np.eye(len(PERCENTS), dtype=bool)].mean()),
            "whole_to_part_mean_loss": float(from_whole.mean()),
            "whole_to_part_worst_loss": float(from_whole.max()),
            "law_rank": float(np.mean(ranks)),
        },
        rows=rows,
        notes=notes,
    )
