"""One, two and four clients at once: what they get done, and how far off their timings are."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.gpu.lab import Client, Earlier, Findings, Lab, require
from benchmarks.gpu.launches import PRODUCTS, sentinels
from benchmarks.gpu.messages import Launch, Pump, Pumped
from benchmarks.gpu.sharing import verified

_CLIENTS = (1, 2, 4)
_SECONDS = 1.5
#: Clients begin together, so much after the first was told to.
_AHEAD_SECONDS = 0.4


def run(lab: Lab, earlier: Earlier) -> Findings:
    """Each of n clients has 1/n of the SMs; against one that has as many and is alone."""
    del earlier
    known = sentinels(lab.code, lab.device.sm_count)
    kernels = (known["arithmetic"], known["memory"], PRODUCTS[-1].launch(lab.code, lab.registers))
    rows: list[dict[str, Any]] = []
    whole: dict[str, float] = {}  # launches a second of one client that has all SMs
    with lab.daemon() as daemon:
        for count in _CLIENTS:
            percent = 100.0 / count
            with contextlib.ExitStack() as stack:
                clients = [
                    stack.enter_context(daemon.client(f"of-{count}-{number}", percent=percent))
                    for number in range(count)
                ]
                sms = [verified(client, daemon, lab, percent) for client in clients]
                for launch in kernels:
                    (alone,) = _pump(lab, clients[:1], launch)
                    together = _pump(lab, clients, launch) if count > 1 else [alone]
                    rate = sum(each.launches / each.wall_seconds for each in together)
                    whole.setdefault(launch.name, rate)
                    rows.append(
                        {
                            "clients": count,
                            "sms_each": min(sms),
                            "kernel": launch.name,
                            "launches_per_second": rate,
                            "of_one_client": rate / whole[launch.name],
                            **_error(alone, together),
                        }
                    )
    results: dict[str, float] = {}
    for count in _CLIENTS[1:]:
        own = [row for row in rows if row["clients"] == count]
        results[f"throughput_{count}"] = statistics.fmean(row["of_one_client"] for row in own)
        results[f"timing_error_{count}"] = max(abs(row["timing_error"]) for row in own)
    return Findings(
        says=", ".join(
            f"{count} clients: {results[f'throughput_{count}']:.2f} of one client's throughput, "
            f"timings off by up to {results[f'timing_error_{count}']:.0%}"
            for count in _CLIENTS[1:]
        ),
        results=results,
        rows=rows,
    )


def _pump(lab: Lab, clients: Sequence[Client], launch: Launch) -> list[Pumped]:
    begin = lab.now() + _AHEAD_SECONDS
    for client in clients:
        client.start(Pump(launch=launch, begin=begin, seconds=_SECONDS))
    return [require(client.answer(), Pumped) for client in clients]


def _error(alone: Pumped, together: Sequence[Pumped]) -> dict[str, float]:
    """How a launch is timed beside others, against the same share alone; and how it scatters."""
    truth = statistics.median(alone.batches_seconds)
    timed = [second for each in together for second in each.batches_seconds]
    low, middle, high = statistics.quantiles(timed, n=4)
    return {
        "alone_seconds": truth,
        "beside_others_seconds": middle,
        "timing_error": middle / truth - 1,
        "quartiles_apart": (high - low) / middle,
    }
