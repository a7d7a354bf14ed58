"""Records of candidates, as a farm would have measured them."""

from __future__ import annotations

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
    Task,
    TensorSpec,
)

DEVICE = Device(
    device_class=DeviceClass(
        kind="cpu", name="Test CPU", total=2, memory_bytes=1 << 30, architecture="generic"
    ),
    uuid="cpu-0",
    host="here",
    driver="",
)
SHARE = Share(kind="cores", asked_percent=50, granted=1, total=2)


def record_of(
    candidate: Candidate,
    result: float | Fault = 1e-3,
    *,
    purpose: Purpose = Purpose.SEARCH,
    attempt: int = 0,
) -> Record:
    """A record: measured in `result` seconds, or failed with that fault."""
    return Record(
        candidate=candidate,
        purpose=purpose,
        attempt=attempt,
        outcome=Failed(fault=result, detail="the cause\nmore")
        if isinstance(result, Fault)
        else Measured(repeats_seconds=(result,) * 3),
        device=DEVICE,
        share=SHARE,
        client="client-0",
        corunners=0,
        cores_used=(0,),
        stage_seconds=StageSeconds(),
        predicted_seconds=None,
        time=1_700_000_000.0,
    )


def plain_task(task_id: str = "task", *, weight: int = 1) -> Task:
    """A task that nobody compiles."""
    return Task(
        id=task_id,
        name=f"name of {task_id}",
        kind="matmul",
        weight=weight,
        flops=1e6,
        bytes_moved=1000,
        reduction_length=8,
        arguments=(TensorSpec(shape=(4,), dtype="float32", is_output=True),),
        module_json="{}",
        target_json="{}",
    )


def candidate(number: int, task_id: str = "task") -> Candidate:
    """One of a task's candidates."""
    return Candidate(task_id=task_id, trace_json=f"[[{number}], []]")
