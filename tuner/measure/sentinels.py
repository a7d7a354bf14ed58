"""Kernels whose time changes with the device alone: arithmetic, memory, and the last cache.

They take no inputs and write next to nothing, so that they can be timed between candidates without
moving anything; what they read they write themselves, into memory that TVM's runtime keeps.
"""

from __future__ import annotations

import json
from typing import Any

from tune_farm.tuner.types import Task, TensorSpec

#: Of a block; on a CPU: what one core computes side by side.
_THREADS = {"cuda": 1024, "llvm": 16}
#: Multiply-adds of one thread, each needing the one before: 0.2 ms of an H100 whose threads are all
#: busy, the launch a hundredth of it.
_STEPS = 40_000
_KEPT = 0.999
#: What is streamed through, times the cache: nothing is found there again.
_BEYOND = 3
#: Of the cache that is read again and again, and how often.
_HALF, _PASSES = 2, 16
_ITEM_BYTES = 4


def sentinel_tasks(target_json: str, *, processors: int, cache_bytes: int) -> tuple[Task, ...]:
    """The three sentinels of a share; a task's untuned candidate is what runs.

    Args:
        target_json: of a GPU (kind "cuda") or a CPU ("llvm").
        processors: SMs or cores of the share.
        cache_bytes: of a GPU's L2, or of the last cache that is a core's own.
    """
    kind = str(json.loads(target_json)["kind"])
    shape = (processors, _THREADS[kind])
    operations = 2.0 * _STEPS * shape[0] * shape[1]
    tasks = [_task("arithmetic", target_json, shape, "float32", operations, 0, _chains(shape))]
    for name, size_bytes, passes in (
        ("memory", _BEYOND * cache_bytes, 1),
        ("cache", cache_bytes // _HALF, _PASSES),
    ):
        depth = max(1, size_bytes // (_ITEM_BYTES * shape[0] * shape[1]))
        moved_bytes = _ITEM_BYTES * shape[0] * shape[1] * depth * (1 + passes)  # one to write them
        function = _sums(shape, depth, passes)
        tasks.append(_task(name, target_json, shape, "int32", 0.0, moved_bytes, function))
    return tuple(tasks)


def _task(
    name: str,
    target_json: str,
    shape: tuple[int, int],
    dtype: str,
    flops: float,
    bytes_moved: int,
    function: Any,
) -> Task:
    return Task(
        id=f"sentinel-{name}",
        name=name,
        kind="sentinel",
        weight=1,
        flops=flops,
        bytes_moved=bytes_moved,
        reduction_length=1,
        arguments=(TensorSpec(shape=shape, dtype=dtype, is_output=True),),
        module_json=_module_json(function, str(json.loads(target_json)["kind"])),
        target_json=target_json,
    )


def _chains(shape: tuple[int, int]) -> Any:
    """Each thread's x = x · c + y, over and over: no compiler finds a shorter way."""
    from tvm import te, tirx

    chain = te.comm_reducer(
        lambda x, y: x * tirx.const(_KEPT, "float32") + y,
        lambda dtype: tirx.const(0, dtype),
        name="chain",
    )
    step = te.reduce_axis((0, _STEPS), "step")
    return te.create_prim_func(
        [te.compute(shape, lambda b, t: chain((b + t).astype("float32"), axis=step), name="total")]
    )


def _sums(shape: tuple[int, int], depth: int, passes: int) -> Any:
    """Each thread's sum of what a first kernel wrote.

    In each pass a block reads what another block's threads read in the last one: it never is in
    the caches of its own SM or core.
    """
    from tvm import te

    blocks, threads = shape
    values = te.compute((blocks, depth, threads), lambda b, k, t: (b ^ k) + t, name="values")
    one_pass = te.reduce_axis((0, passes), "pass")
    k = te.reduce_axis((0, depth), "k")
    total = te.compute(
        shape,
        lambda b, t: te.sum(values[(b + one_pass) % blocks, k, t], axis=[one_pass, k]),
        name="total",
    )
    return te.create_prim_func([total])


def _module_json(function: Any, kind: str) -> str:
    import tvm
    from tvm import s_tir

    schedule = s_tir.Schedule(function)
    for name in ("values", "total") if "values" in str(function) else ("total",):
        _bind(schedule, name, kind)
    # Else TVM's own rules for untuned kernels would schedule it, and have no kernel write `values`.
    scheduled = schedule.mod["main"].with_attr("tirx.is_scheduled", True)
    return str(tvm.ir.save_json(tvm.IRModule({"main": scheduled})))


def _bind(schedule: Any, name: str, kind: str) -> None:
    """A block's processors and threads; the innermost loop is the threads' where there are none."""
    block = schedule.get_sblock(name)
    block_loop, *others = schedule.get_loops(block)
    if name == "values":
        thread_loop, inner = others[1], [others[0]]
    else:
        thread_loop, inner = others[0], others[1:]
    if kind != "cuda":
        schedule.reorder(block_loop, *inner, thread_loop)
        schedule.parallel(block_loop)
    else:
        if name == "total":
            register = schedule.cache_write(block, 0, "local")
        schedule.reorder(block_loop, thread_loop, *inner)
        schedule.bind(block_loop, "blockIdx.x")
        schedule.bind(thread_loop, "threadIdx.x")
        if name == "total":
            schedule.reverse_compute_at(register, thread_loop)
    if name == "total":
        schedule.decompose_reduction(block, inner[0])
