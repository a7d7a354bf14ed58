"""Is a client of the daemon really one, and is a client that missed it found out?

CUDA says nothing when it finds no daemon: the process gets the whole GPU. The handshake that the
product makes before any timing has to tell the two apart.
"""

from __future__ import annotations

import contextlib
from typing import Any

from benchmarks.gpu.lab import Client, Daemon, Earlier, Findings, Lab
from tune_farm.client.share.mps.errors import MpsError
from tune_farm.client.share.mps.handshake import Expected, verify

_PERCENT = 40.0


def run(lab: Lab, earlier: Earlier) -> Findings:
    """One client under a share, two that look for their daemon where nobody listens."""
    del earlier
    rows = []
    with lab.daemon() as daemon:
        with daemon.client("attached", percent=_PERCENT) as client:
            rows.append(_row("under the daemon", _PERCENT, client, daemon, lab))
        for percent in (_PERCENT, 100.0):
            with daemon.lost_client("lost", percent=percent) as client:
                rows.append(_row("wrong pipe directory", percent, client, daemon, lab))
    attached, *lost = rows
    silent = [row for row in lost if not row["error"] and row["visible_sms"] == row["total_sms"]]
    caught = [row for row in lost if row["handshake"] != "in force"]
    is_attached = attached["handshake"] == "in force"
    return Findings(
        says=(
            f"{'attached' if is_attached else 'NOT attached'}: {attached['visible_sms']} of "
            f"{attached['total_sms']} SMs at {_PERCENT:g}%; {len(silent)} of {len(lost)} lost "
            f"clients had the whole GPU without an error, {len(caught)} of them were found out"
        ),
        results={
            "attached": float(is_attached),
            "silent_fallbacks": len(silent),
            "fallbacks_caught": len(caught),
        },
        rows=rows,
    )


def _row(what: str, percent: float, client: Client, daemon: Daemon, lab: Lab) -> dict[str, Any]:
    attached = client.attached
    total = lab.device.sm_count
    expected = Expected(uuid=lab.device.uuid, total=total, percent=percent)
    handshake = "in force"
    try:
        verify(attached, expected, daemon.control)
    except MpsError as error:
        handshake = error.cause
    listed: bool | None = None
    with contextlib.suppress(MpsError):
        listed = any(
            attached.pid in daemon.control.clients(server) for server in daemon.control.servers()
        )
    return {
        "client": what,
        "percent": percent,
        "visible_sms": attached.devices[0].sm_count if attached.devices else None,
        "total_sms": total,
        "listed_by_daemon": listed,
        "error": attached.error,
        "handshake": handshake,
    }
