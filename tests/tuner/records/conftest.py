"""Records and headers for the tests of what is stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tune_farm.tuner.records.schema import Header
from tune_farm.tuner.types import (
    Candidate,
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

DEVICE_CLASS = DeviceClass(
    kind="cpu", name="Test CPU", total=8, memory_bytes=16 << 30, architecture="znver4"
)


def make_record(
    trace: str = "[1]",
    seconds: float | tuple[float, ...] | Fault = 1e-3,
    *,
    task: str = "conv",
    purpose: Purpose = Purpose.SEARCH,
    attempt: int = 0,
    stopped_early: bool = False,
) -> Record:
    """Return a record: measured, or failed if `seconds` is a fault."""
    if isinstance(seconds, Fault):
        outcome: Measured | Failed = Failed(fault=seconds, detail="cause\nstderr")
    else:
        repeats = seconds if isinstance(seconds, tuple) else (seconds,)
        outcome = Measured(repeats_seconds=repeats, stopped_early=stopped_early)
    return Record(
        candidate=Candidate(task_id=task, trace_json=trace),
        purpose=purpose,
        attempt=attempt,
        outcome=outcome,
        device=Device(device_class=DEVICE_CLASS, uuid="cpu-0", host="node1", driver="6.1"),
        share=Share(kind="cores", asked_percent=50, granted=4, total=8),
        client="node1/0",
        corunners=1,
        cores_used=(0, 1, 2, 3),
        stage_seconds=StageSeconds(build=0.1, measure=0.2),
        predicted_seconds=None,
        time=1_700_000_000.5,
    )


@pytest.fixture
def record() -> Callable[..., Record]:
    """Return the maker of records."""
    return make_record


@pytest.fixture
def header() -> Header:
    """Return a header that fits the records."""
    return Header(
        run_id="20260101-resnet50-abc123",
        model="resnet50",
        batch=1,
        sequence=None,
        shapes=(("n", 4),),
        target_json='{"kind": "llvm", "num-cores": 4}',
        device_class=DEVICE_CLASS,
        share_kind="cores",
        share_granted=4,
        share_total=8,
        asked_percent=50,
        tune_farm_version="0.1.0",
        tvm_version="0.27.0",
        seed=0,
        strategy="metaschedule",
        layout="given",
        fast_math=False,
        created=1_700_000_000.0,
    )
