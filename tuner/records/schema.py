"""One record as one flat JSON object; the header that says what a journal's records hold for."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from tune_farm.tuner.types import (
    Candidate,
    Clocks,
    Device,
    DeviceClass,
    Failed,
    Fault,
    Measured,
    Outcome,
    Purpose,
    Record,
    Share,
    ShareKind,
    StageSeconds,
)

JsonObject: TypeAlias = dict[str, Any]

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """A record as the journal holds it."""

    record: Record
    spent_seconds: float  # the run's budget clock when the record was written


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What every record of one journal has in common; the journal's first line."""

    run_id: str
    model: str
    batch: int | None
    sequence: int | None
    shapes: tuple[tuple[str, int], ...]  # symbolic dimensions and the values they were given
    target_json: str
    device_class: DeviceClass
    share_kind: ShareKind
    share_granted: int  # SMs or cores
    share_total: int  # SMs or cores
    asked_percent: int
    tune_farm_version: str
    tvm_version: str
    seed: int
    strategy: str
    layout: str  # of the model's tensors: its tasks follow from it
    fast_math: bool  # whether its functions are polynomials
    created: float  # Unix time
    checked: bool = True  # outputs were compared with the untuned operators'
    v: int = VERSION


def record_to_json(record: Record, *, spent_seconds: float) -> JsonObject:
    """Return the journal's object for a record."""
    outcome = record.outcome
    failed = outcome if isinstance(outcome, Failed) else None
    measured = outcome if isinstance(outcome, Measured) else None
    device = record.device
    return {
        "kind": "outcome",
        "candidate": record.candidate.id,
        "task": record.candidate.task_id,
        "attempt": record.attempt,
        "purpose": record.purpose.value,
        "outcome": "measured" if measured else "failed",
        "fault": failed.fault.value if failed else None,
        "detail": failed.detail if failed else None,
        "repeats_seconds": list(measured.repeats_seconds) if measured else [],
        "stopped_early": measured.stopped_early if measured else False,
        "predicted_seconds": record.predicted_seconds,
        "device": {
            "class": asdict(device.device_class),
            "uuid": device.uuid,
            "host": device.host,
            "driver": device.driver,
        },
        "share": asdict(record.share),
        "client": record.client,
        "corunners": record.corunners,
        "cores_used": list(record.cores_used),
        "stage_seconds": asdict(record.stage_seconds),
        "spent_seconds": spent_seconds,
        "time": record.time,
        "clocks": None if record.clocks is None else asdict(record.clocks),
        "trace": record.candidate.trace_json,
    }


def record_from_json(item: JsonObject) -> StoredRecord:
    """Return the record an object of the journal holds.

    Args:
        item: the object; keys that this version does not know are ignored.

    Raises:
        ValueError: a field is missing or impossible; the message names it.
    """
    try:
        candidate = Candidate(task_id=item["task"], trace_json=item["trace"])
        if candidate.id != item["candidate"]:
            raise ValueError(f"candidate {item['candidate']} is not the hash of its task and trace")
        device = item["device"]
        record = Record(
            candidate=candidate,
            purpose=Purpose(item["purpose"]),
            attempt=int(item["attempt"]),
            outcome=_outcome_from_json(item),
            device=Device(
                device_class=DeviceClass(**device["class"]),
                uuid=device["uuid"],
                host=device["host"],
                driver=device["driver"],
            ),
            share=Share(**item["share"]),
            client=item["client"],
            corunners=int(item["corunners"]),
            cores_used=tuple(item["cores_used"]),
            stage_seconds=StageSeconds(**item["stage_seconds"]),
            predicted_seconds=item["predicted_seconds"],
            time=float(item["time"]),
            clocks=_clocks_from_json(item.get("clocks")),  # not known to the first journals
        )
        return StoredRecord(record=record, spent_seconds=float(item["spent_seconds"]))
    except KeyError as error:
        raise ValueError(f"the field {error} is missing") from error
    except (TypeError, AssertionError) as error:
        raise ValueError(f"a field has an impossible value: {error}") from error


def _outcome_from_json(item: JsonObject) -> Outcome:
    if item["outcome"] == "failed":
        return Failed(fault=Fault(item["fault"]), detail=item["detail"])
    if item["outcome"] != "measured":
        raise ValueError(f"outcome is {item['outcome']!r}, neither measured nor failed")
    repeats = tuple(float(seconds) for seconds in item["repeats_seconds"])
    if not repeats:
        raise ValueError("a measured outcome without repeats_seconds")
    return Measured(repeats_seconds=repeats, stopped_early=bool(item["stopped_early"]))


def _clocks_from_json(item: JsonObject | None) -> Clocks | None:
    if item is None:
        return None
    events = item["events"]
    return Clocks(
        sm_hertz=item["sm_hertz"],
        memory_hertz=item["memory_hertz"],
        events=None if events is None else tuple(events),
    )


def header_to_json(header: Header) -> JsonObject:
    """Return the journal's first object."""
    return {
        "v": header.v,
        "kind": "header",
        "run_id": header.run_id,
        "model": header.model,
        "batch": header.batch,
        "sequence": header.sequence,
        "shapes": dict(header.shapes),
        "target": header.target_json,
        "device_class": asdict(header.device_class),
        "share": {
            "kind": header.share_kind,
            "asked_percent": header.asked_percent,
            "granted": header.share_granted,
            "total": header.share_total,
        },
        "tune_farm_version": header.tune_farm_version,
        "tvm_version": header.tvm_version,
        "seed": header.seed,
        "strategy": header.strategy,
        "layout": header.layout,
        "fast_math": header.fast_math,
        "checked": header.checked,
        "created": header.created,
    }


def header_from_json(item: JsonObject) -> Header:
    """Return the header an object holds.

    Raises:
        ValueError: a field is missing or impossible; the message names it.
    """
    try:
        share = item["share"]
        return Header(
            v=item["v"],
            run_id=item["run_id"],
            model=item["model"],
            batch=item["batch"],
            sequence=item["sequence"],
            shapes=tuple(item["shapes"].items()),
            target_json=item["target"],
            device_class=DeviceClass(**item["device_class"]),
            share_kind=share["kind"],
            share_granted=int(share["granted"]),
            share_total=int(share["total"]),
            asked_percent=int(share["asked_percent"]),
            tune_farm_version=item["tune_farm_version"],
            tvm_version=item["tvm_version"],
            seed=int(item["seed"]),
            strategy=item["strategy"],
            layout=item.get("layout", "given"),  # the only one there was
            fast_math=item.get("fast_math", False),
            created=float(item["created"]),
            checked=item.get("checked", True),
        )
    except KeyError as error:
        raise ValueError(f"the field {error} is missing") from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"a field has an impossible value: {error}") from error


def difference(stored: Header, wanted: Header) -> str | None:
    """Name the first field for which stored records cannot serve the wanted run, with both values.

    Seed, strategy, versions, the percentage asked for and the time do not matter: they change what
    is tried, not what a measured time means. What was granted does.
    """
    before, after = _identity(stored), _identity(wanted)
    for field, value in before.items():
        if value != after[field]:
            return f"{field}: {_shown(value)} in the records, {_shown(after[field])} asked for"
    return None


def _identity(header: Header) -> JsonObject:
    device = header.device_class
    return {
        "model": header.model,
        "batch": header.batch,
        "sequence": header.sequence,
        "shapes": dict(header.shapes),
        "layout": header.layout,
        "fast math": header.fast_math,
        "output check": header.checked,
        "target": _parsed(header.target_json),
        "device kind": device.kind,
        "device name": device.name,
        "device total": device.total,
        "device memory_bytes": device.memory_bytes,
        "device architecture": device.architecture,
        "share kind": header.share_kind,
        "share granted": header.share_granted,
    }


def _parsed(target_json: str) -> object:
    # The order of a target's keys is not part of its meaning.
    try:
        return json.loads(target_json)
    except ValueError:
        return target_json


def _shown(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)
