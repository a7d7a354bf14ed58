"""A record survives its trip through JSON unchanged; a header tells what fits together."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_farm.tuner.records.schema import (
    Header,
    difference,
    header_from_json,
    header_to_json,
    record_from_json,
    record_to_json,
)
from tune_farm.tuner.types import (
    Candidate,
    Clocks,
    Device,
    DeviceClass,
    Failed,
    Fault,
    Measured,
    Purpose,
    Record,
    Share,
    StageSeconds,
)

#: Any text at all, lone surrogates too: a worker's last stderr is not always well-formed.
texts = st.text(st.characters(), max_size=40)
seconds = st.floats(min_value=0, max_value=1e6)
counts = st.integers(min_value=0, max_value=1 << 50)
classes = st.builds(
    DeviceClass,
    kind=st.sampled_from(["cpu", "cuda"]),
    name=texts,
    total=counts,
    memory_bytes=counts,
    architecture=texts,
)
shares = st.builds(
    Share,
    kind=st.sampled_from(["cores", "whole", "mps", "mig"]),
    asked_percent=st.integers(1, 100),
    granted=st.integers(1, 8),
    total=st.integers(8, 200),
)
outcomes = st.one_of(
    st.builds(
        Measured,
        repeats_seconds=st.lists(seconds, min_size=1, max_size=5).map(tuple),
        stopped_early=st.booleans(),
    ),
    st.builds(Failed, fault=st.sampled_from(Fault), detail=texts),
)
# The task's id goes into a hash as UTF-8, so it is well-formed text.
candidates = st.builds(
    Candidate,
    task_id=st.text(st.characters(codec="utf-8"), max_size=20),
    trace_json=st.text(st.characters(codec="utf-8"), max_size=40),
)
records = st.builds(
    Record,
    candidate=candidates,
    purpose=st.sampled_from(Purpose),
    attempt=st.integers(0, 9),
    outcome=outcomes,
    device=st.builds(Device, device_class=classes, uuid=texts, host=texts, driver=texts),
    share=shares,
    client=texts,
    corunners=st.integers(0, 9),
    cores_used=st.lists(st.integers(0, 255), max_size=4).map(tuple),
    stage_seconds=st.builds(
        StageSeconds, search=seconds, build=seconds, check=seconds, measure=seconds
    ),
    predicted_seconds=st.none() | seconds,
    time=seconds,
    clocks=st.none()
    | st.builds(
        Clocks,
        sm_hertz=st.none() | seconds,
        memory_hertz=st.none() | seconds,
        events=st.none() | st.lists(texts, max_size=3).map(tuple),
    ),
)


@settings(max_examples=60, deadline=None)
@given(record=records, spent_seconds=seconds)
def test_record_survives_the_trip(record: Record, spent_seconds: float) -> None:
    line = json.dumps(record_to_json(record, spent_seconds=spent_seconds), allow_nan=False)
    stored = record_from_json(json.loads(line))
    assert stored.record == record
    assert stored.spent_seconds == spent_seconds


def test_object_has_the_keys_that_readers_rely_on(record: Callable[..., Record]) -> None:
    item = record_to_json(record(seconds=Fault.RUN_TIMEOUT), spent_seconds=1.0)
    assert item["kind"] == "outcome"
    assert (item["outcome"], item["fault"], item["detail"]) == (
        "failed",
        "run_timeout",
        "cause\nstderr",
    )
    assert item["repeats_seconds"] == []
    assert item["device"]["class"]["name"] == "Test CPU"
    assert item["share"] == {"kind": "cores", "asked_percent": 50, "granted": 4, "total": 8}
    assert item["candidate"] == record().candidate.id


def test_a_journal_that_does_not_know_clocks_yet_is_read(record: Callable[..., Record]) -> None:
    item = record_to_json(record(), spent_seconds=1.0)
    del item["clocks"]
    assert record_from_json(item).record == record()


def test_unknown_keys_are_ignored(record: Callable[..., Record]) -> None:
    item = record_to_json(record(), spent_seconds=1.0) | {"later": 1}
    assert record_from_json(item).record == record()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"candidate": "0" * 20}, "hash"),
        ({"outcome": "maybe"}, "maybe"),
        ({"repeats_seconds": []}, "repeats_seconds"),
        ({"purpose": "fun"}, "fun"),
        ({"share": {"kind": "cores"}}, "asked_percent"),
        ({"attempt": None}, "impossible"),
    ],
)
def test_impossible_record_is_refused(
    record: Callable[..., Record], change: dict[str, object], named: str
) -> None:
    item = record_to_json(record(), spent_seconds=1.0) | change
    with pytest.raises(ValueError, match=named):
        record_from_json(item)


def test_missing_field_is_named(record: Callable[..., Record]) -> None:
    item = record_to_json(record(), spent_seconds=1.0)
    del item["client"]
    with pytest.raises(ValueError, match="client"):
        record_from_json(item)


def test_header_survives_the_trip(header: Header) -> None:
    assert header_from_json(json.loads(json.dumps(header_to_json(header)))) == header


def test_header_without_a_field_names_it(header: Header) -> None:
    item = header_to_json(header)
    del item["seed"]
    with pytest.raises(ValueError, match="seed"):
        header_from_json(item)


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("model", "vgg", "model: resnet50 in the records, vgg asked for"),
        ("batch", 8, "batch"),
        ("sequence", 128, "sequence"),
        ("shapes", (("n", 5),), "shapes"),
        ("target_json", '{"kind": "cuda"}', "target"),
        ("share_kind", "whole", "share kind"),
        ("share_granted", 8, "share granted"),
        ("checked", False, "output check: True in the records, False asked for"),
    ],
)
def test_difference_names_the_field(header: Header, field: str, value: object, named: str) -> None:
    # `replace` checks the names, not the types, of what it is given here.
    changed = replace(header, **{field: value})  # type: ignore[arg-type]
    said = difference(header, changed)
    assert said is not None
    assert said.startswith(named)


@pytest.mark.parametrize("field", [item.name for item in fields(DeviceClass)])
def test_difference_names_the_device_field(header: Header, field: str) -> None:
    changed = replace(header.device_class, **{field: 1})  # type: ignore[arg-type]
    said = difference(header, replace(header, device_class=changed))
    assert said is not None
    assert said.startswith(f"device {field}:")


def test_difference_ignores_what_does_not_change_a_time(header: Header) -> None:
    other = replace(
        header,
        seed=9,
        strategy="random",
        created=0.0,
        run_id="x",
        asked_percent=49,
        target_json='{"num-cores": 4, "kind": "llvm"}',
    )
    assert difference(header, other) is None
