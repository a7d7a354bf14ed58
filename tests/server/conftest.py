"""Records for the tests of the server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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


@pytest.fixture
def record() -> Callable[..., Record]:
    """Return a maker of records: measured, or failed if `seconds` is a fault."""

    def make(
        trace: str = "[1]",
        seconds: float | Fault = 1e-3,
        *,
        task: str = "conv",
        purpose: Purpose = Purpose.SEARCH,
        attempt: int = 0,
    ) -> Record:
        failed = Failed(fault=seconds, detail="cause") if isinstance(seconds, Fault) else None
        device_class = DeviceClass(
            kind="cpu", name="Test CPU", total=8, memory_bytes=16 << 30, architecture="znver4"
        )
        return Record(
            candidate=Candidate(task_id=task, trace_json=trace),
            purpose=purpose,
            attempt=attempt,
            outcome=failed or Measured(repeats_seconds=(float(seconds),) * 3),  # type: ignore[arg-type]
            device=Device(device_class=device_class, uuid="cpu-0", host="node1", driver="6.1"),
            share=Share(kind="cores", asked_percent=50, granted=4, total=8),
            client="node1/0",
            corunners=0,
            cores_used=(0,),
            stage_seconds=StageSeconds(),
            predicted_seconds=None,
            time=1_700_000_000.0,
        )

    return make
