"""The sentinels compute what they say, build for GPUs, and run between a task's candidates."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from benchmarks.h100 import H100, H100_TARGET_JSON
from tests.tuner import operators
from tests.tuner.measure.test_runner import open_runner, run
from tests.tuner.operators import TARGET_JSON, export, task_of
from tune_farm.tuner.build.cuda_build import build_cuda, schedule_by_default
from tune_farm.tuner.build.cuda_compile import missing_compiler
from tune_farm.tuner.build.pool import BuildOptions, BuildPool
from tune_farm.tuner.interfaces import Artifact, BuildFailure
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.measure.messages import Timing
from tune_farm.tuner.measure.sentinels import sentinel_tasks
from tune_farm.tuner.measure.watch import SentinelWatch
from tune_farm.tuner.types import Candidate, Failed, Fault, KernelUsage, Measured, Outcome, Task

CORE = min(os.sched_getaffinity(0))
CACHE_BYTES = 1 << 20


def for_this_cpu(processors: int = 1) -> tuple[Task, ...]:
    return sentinel_tasks(TARGET_JSON, processors=processors, cache_bytes=CACHE_BYTES)


def output_of(task: Task, folder: Path) -> Any:
    (argument,) = task.arguments
    library = folder / f"{task.id}.so"
    module = tvm.ir.load_json(task.module_json)
    tvm.tirx.build(module, target=tvm.target.Target(TARGET_JSON)).export_library(str(library))
    result = tvm.runtime.tensor(np.zeros(argument.shape, argument.dtype), tvm.cpu())
    tvm.runtime.load_module(str(library))["main"](result)
    return np.asarray(result.numpy())


def test_each_reads_what_it_says(tmp_path: Path) -> None:
    arithmetic, memory, cache = for_this_cpu(processors=2)
    (shape,) = {task.arguments[0].shape for task in (arithmetic, memory, cache)}
    blocks, threads = np.indices(shape)

    # x = 0.999 x + y settles at 1000 y, but for rounding.
    np.testing.assert_allclose(
        output_of(arithmetic, tmp_path), 1000.0 * (blocks + threads), rtol=1e-2
    )
    for task, size_bytes, passes in ((memory, 3 * CACHE_BYTES, 1), (cache, CACHE_BYTES // 2, 16)):
        depth = size_bytes // 4 // (shape[0] * shape[1])
        assert task.bytes_moved == size_bytes * (1 + passes)
        total = sum(
            (((blocks + one) % shape[0])[..., None] ^ np.arange(depth)).sum(axis=-1)
            + depth * threads
            for one in range(passes)
        )
        np.testing.assert_array_equal(output_of(task, tmp_path), total.astype(np.int32))


@pytest.mark.skipif(missing_compiler() is not None, reason=missing_compiler() or "there is one")
def test_they_build_for_a_gpu_as_they_are_scheduled(tmp_path: Path) -> None:
    target = tvm.target.Target(H100_TARGET_JSON)
    kernels: dict[str, tuple[KernelUsage, ...]] = {}
    for task in sentinel_tasks(H100_TARGET_JSON, processors=32, cache_bytes=H100.l2_bytes):
        module = schedule_by_default(tvm.ir.load_json(task.module_json), target)
        library = str(tmp_path / f"{task.id}.so")
        kernels[task.name] = build_cuda(module, target, library, is_new=None)

    assert {name: len(each) for name, each in kernels.items()} == {
        "arithmetic": 1,
        "memory": 2,  # one writes what the other reads
        "cache": 2,
    }
    for kernel in (kernel for each in kernels.values() for kernel in each):
        assert kernel.threads == 1024
        assert kernel.spilled_bytes == 0
        assert kernel.registers <= 64


@pytest.mark.slow
def test_they_run_between_candidates_and_leave_the_task_alone(tmp_path: Path) -> None:
    pool = BuildPool(
        cores=(CORE,),
        scratch=tmp_path,
        options=BuildOptions(timeout_seconds=60.0),
        name="slot",
        should_stop=lambda: False,
    )
    runner = open_runner(tmp_path)
    try:
        watch = SentinelWatch(
            pool, runner, processors=1, cache_bytes=CACHE_BYTES, sleep=lambda seconds: None
        )
        task = task_of(operators.matmul())
        library = export(operators.matmul(), tmp_path / "matmul.so")
        watch.prepare(TARGET_JSON)
        runner.select(task, None)
        runner.run(
            Artifact(candidate=untuned(task), path=library, build_seconds=0.0),
            incumbent_seconds=None,
        )
        reference = (tmp_path / f"reference-{task.id}.npz").stat().st_mtime_ns

        watch.read(alone=False)
        outcome = run(runner, task, library).outcome
        assert watch._sentinels is not None
        levels = {each.task.name: each.levels[False] for each in watch._sentinels}
    finally:
        runner.close()
        pool.close()

    assert isinstance(outcome, Measured), outcome
    assert (tmp_path / f"reference-{task.id}.npz").stat().st_mtime_ns == reference
    assert set(levels) == {"arithmetic", "memory", "cache"}
    for level in levels.values():
        assert 1e-6 < level.seconds < 1.0


class Device:
    """Builds anything; its kernels take the times that they are told."""

    def __init__(self) -> None:
        self.seconds: dict[str, float | Fault] = dict.fromkeys(
            ("arithmetic", "memory", "cache"), 1e-3
        )
        self.stops = False
        self.builds: list[str] = []
        self.now = 0.0

    def select(self, task: Task) -> None:
        self.task = task

    def build(self, candidates: Sequence[Candidate]) -> Iterator[Artifact | BuildFailure]:
        if not self.stops:
            self.builds.append(self.task.name)
            path = Path(self.task.name)
            yield Artifact(candidate=untuned(self.task), path=path, build_seconds=0.0)

    def time_sentinel(self, task: Task, library: Path, timing: Timing, *, alone: bool) -> Outcome:
        assert library == Path(task.name)
        self.now += 0.01
        seconds = self.seconds[task.name]
        if alone and not isinstance(seconds, Fault):
            seconds = 0.8 * seconds
        if isinstance(seconds, Fault):
            return Failed(fault=seconds, detail="the cause\nmore")
        return Measured(repeats_seconds=(seconds,) * timing.repeats)

    def watch(self) -> SentinelWatch:
        watch = SentinelWatch(
            self,
            self,
            processors=1,
            cache_bytes=CACHE_BYTES,
            clock=lambda: self.now,
            sleep=lambda seconds: None,
        )
        watch.prepare(TARGET_JSON)
        return watch


def test_the_sentinel_that_suffers_most_is_named() -> None:
    device = Device()
    watch = device.watch()

    assert watch.read(alone=False)() is None
    device.seconds = {"arithmetic": 1.01e-3, "memory": 1.5e-3, "cache": 1.2e-3}
    assert watch.read(alone=False)() == (
        "others were at work on the device: the memory sentinel took 1.50 times its quiet time"
    )
    device.seconds = dict.fromkeys(device.seconds, 1e-3)
    assert watch.read(alone=False)() is None


def test_it_knows_how_long_they_take_alone_and_beside_other_clients() -> None:
    watch = Device().watch()

    assert [watch.read(alone=alone)() for alone in (False, True, True, True, True, False)] == [
        None
    ] * 6


def test_another_clients_fault_is_not_a_sentinels() -> None:
    device = Device()
    watch = device.watch()
    watch.read(alone=False)
    device.seconds["cache"] = Fault.CONTENDED

    causes = [watch.read(alone=False)() for _ in range(5)]

    assert causes == ["the cache sentinel failed: the cause\nmore"] * 5


def test_a_sentinel_that_fails_disturbs_until_it_is_given_up() -> None:
    device = Device()
    watch = device.watch()
    watch.read(alone=False)
    device.seconds["cache"] = Fault.RUN_ERROR

    assert [watch.read(alone=False)() for _ in range(4)] == [
        *["the cache sentinel failed: the cause\nmore"] * 3,
        None,
    ]


def test_one_that_never_ran_is_left_out() -> None:
    device = Device()
    device.seconds["memory"] = Fault.RUN_ERROR
    watch = device.watch()

    assert watch.read(alone=False)() is None
    device.seconds["memory"] = 1e-3
    device.seconds["cache"] = 2e-3
    assert "cache" in str(watch.read(alone=False)())


def test_they_are_built_once_and_a_stop_puts_it_off() -> None:
    device = Device()
    device.stops = True
    watch = device.watch()
    assert watch.read(alone=False)() is None  # blind

    device.stops = False
    for _ in range(2):
        watch.prepare(TARGET_JSON)

    assert device.builds == ["arithmetic", "memory", "cache"]


def test_without_the_size_of_the_cache_there_are_none() -> None:
    device = Device()
    watch = SentinelWatch(device, device, processors=1)

    watch.prepare(TARGET_JSON)

    assert device.builds == []
    assert watch.read(alone=False)() is None
