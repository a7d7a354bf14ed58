"""The predictor's wave law against the truth: tiles of several shapes at several shares."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from benchmarks.gpu.client import random_values
from benchmarks.gpu.lab import (
    Client,
    Daemon,
    Earlier,
    Findings,
    Lab,
    SkippedError,
    seconds_of,
    told,
)
from benchmarks.gpu.launches import PRODUCT_TOLERANCE, PRODUCTS, Product
from benchmarks.gpu.law import agreement, law_seconds, machine_of, wave_count
from benchmarks.gpu.messages import Buffer, Output, Values
from benchmarks.gpu.sharing import sharing, verified
from tune_farm.client.share.mps.errors import MpsError

PERCENTS = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
#: Parts of the GPU that static partitions are made of.
_STATIC_PERCENTS = (25, 50, 75, 100)
_PLACES = 64

Opened: TypeAlias = AbstractContextManager[tuple[Client, int]]


def run(lab: Lab, earlier: Earlier) -> Findings:
    """Under percentages."""
    with sharing(lab) as way:
        found = _measure(lab, earlier, way.kind, PERCENTS, way.client)
    notes = [f"green contexts in the place of MPS: {way.why}"] if way.why else []
    return replace(found, notes=[*found.notes, *notes])


def run_static(lab: Lab, earlier: Earlier) -> Findings:
    """Under static partitions of SMs."""
    with lab.daemon(static=True) as daemon:
        chunk = _chunk(lab, daemon)
        total = lab.device.sm_count

        @contextlib.contextmanager
        def client(percent: float) -> Iterator[tuple[Client, int]]:
            chunks = max(1, int(percent / 100 * total / chunk))
            with (
                partition(lab, daemon, chunks) as (name, sms),
                daemon.client(f"static-{percent:g}", partition=name) as client,
            ):
                yield client, verified(client, daemon, lab, 100.0, sms)

        found = _measure(lab, earlier, "static", _STATIC_PERCENTS, client)
    return replace(
        found,
        says=f"chunks of {chunk} SMs; {found.says}",
        results={**found.results, "chunk_sms": chunk},
    )


@contextlib.contextmanager
def partition(lab: Lab, daemon: Daemon, chunks: int) -> Iterator[tuple[str, int]]:
    """Set SMs aside: their name and number; given back at the end.

    Raises:
        SkippedError: the driver has no static partitions, or not so many SMs left.
    """
    control = daemon.control
    try:
        name = control.add_partition(lab.device.uuid, chunks)
        sms = next((each.sms for each in control.partitions() if each.name == name), None)
    except MpsError as error:
        raise SkippedError(error.cause) from None
    if sms is None:
        raise SkippedError(f"lspart does not list {name}: {control.ask('lspart')!r}"[:300])
    try:
        yield name, sms
    finally:
        with contextlib.suppress(MpsError):
            control.remove_partition(name)


def _chunk(lab: Lab, daemon: Daemon) -> int:
    """SMs of one chunk: it differs by architecture, and the driver alone knows."""
    with partition(lab, daemon, 1) as (_, sms):
        return sms


def _measure(
    lab: Lab,
    earlier: Earlier,
    kind: str,
    percents: tuple[int, ...],
    open_client: Callable[[float], Opened],
) -> Findings:
    launches = [product.launch(lab.code, lab.registers) for product in PRODUCTS]
    machine = machine_of(lab.device, earlier)
    predicted, measured = list[list[float]](), list[list[float]]()
    rows, notes, wrong = list[dict[str, Any]](), list[str](), 0
    for percent in percents:
        try:
            with open_client(percent) as (client, sms):
                if percent == percents[-1] and not lab.is_simulated:
                    wrong = _wrong(lab, client)
                times = [seconds_of(client, launch, repeats=3) for launch in launches]
        except SkippedError as reason:
            notes.append(f"{percent}%: {reason}")
            continue
        share = replace(machine, sms=sms)
        laws = [law_seconds(launch.tiles, share) for launch in launches]
        predicted.append(laws)
        measured.append(times)
        rows += [
            {
                "kind": kind,
                "percent": percent,
                "sms": sms,
                "kernel": launch.name,
                "blocks": int(launch.tiles["blocks"]),
                "waves": wave_count(launch.tiles, share),
                "measured_seconds": seconds,
                "law_seconds": law,
            }
            for launch, seconds, law in zip(launches, times, laws, strict=True)
        ]
    if len(measured) < 2:
        raise SkippedError(notes[0] if notes else "no share could be measured")
    found = agreement(predicted, measured)
    return Findings(
        says=(
            f"{kind}, {len(measured)} shares: the law ranks {len(launches)} kernels by "
            f"{found.rank:.2f}, is off by {found.scaling_error:.0%} on how they scale; times are "
            f"{found.ratio:.2f} of its own" + (f"; {wrong} WRONG results" if wrong else "")
        ),
        results={
            "rank": found.rank,
            "scaling_error": found.scaling_error,
            "time_over_law": found.ratio,
            "wrong": wrong,
        },
        rows=rows,
        notes=notes,
    )


def _wrong(lab: Lab, client: Client) -> int:
    """Kernels whose results are wrong."""
    return sum(not _is_right(lab, client, product) for product in PRODUCTS)


def _is_right(lab: Lab, client: Client, product: Product) -> bool:
    launch, places = product.launch(lab.code, lab.registers), product.places(_PLACES)
    got = told(client, Output(launch=launch, argument=2, places=places), Values).values
    inputs = []
    for buffer in launch.arguments[:2]:
        assert isinstance(buffer, Buffer)
        assert buffer.seed is not None
        inputs.append(random_values(buffer.seed, buffer.bytes // 4).astype(np.float64))
    expected = product.reference(places, *inputs)
    allowed = PRODUCT_TOLERANCE * product.size[2]
    return bool(np.all(np.abs(np.array(got) - expected) <= allowed))  # NaN is not
