"""The rival: TVM's evolutionary search and `LocalBuilder`, from a task to compiled CUDA kernels.

Run as `python -m benchmarks.stock_cuda_candidates FILE`, a pickle of `Order`; prints one JSON line.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tune_farm.tuner.types import Task

BUILD = "tune_farm.benchmarks.build_and_compile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is built, and with what."""

    tasks: tuple[Task, ...]
    target_json: str
    candidates: int  # of each task
    population: int  # of its evolutionary search
    workers: int
    timeout_seconds: float  # of one build; TVM counts a worker's start in
    folder: str  # for notes of the workers
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it."""

    built: int
    failed: int
    import_seconds: float  # of the searching process: TVM and its tensor intrinsics
    search_seconds: float  # drawing, postprocessors, evolution
    build_seconds: float  # the builder's call, start of its workers included
    start_seconds: float  # of that, until the first worker began to build

    @property
    def seconds(self) -> float:
        """Without any start."""
        return self.search_seconds + self.build_seconds - self.start_seconds


def register_build(folder: str) -> None:
    """In a worker: TVM's own build, then the compilation that its CUDA runtime would do.

    TVM compiles CUDA source where its runtime finds a driver, and leaves it as it is elsewhere.
    Here the same callback is called in its place, with the same options.
    """
    import os

    import tvm_ffi

    def build(module: Any, target: Any, parameters: Any) -> Any:
        import tvm.s_tir.tensor_intrin  # noqa: F401 - `default_build` does it: part of the start
        from tvm.s_tir.meta_schedule.builder.local_builder import default_build
        from tvm.support.nvcc import tvm_callback_cuda_compile

        note = Path(folder) / f"{os.getpid()}.started"
        if not note.exists():
            note.write_text(str(time.time()))
        built = default_build(module, target, parameters)
        (device,) = built.imports
        with target:
            assert tvm_callback_cuda_compile(device.inspect_source())
        return built

    tvm_ffi.register_global_func(BUILD, build, override=True)


def candidates_of(order: Order, task: Task, target: Any) -> list[Any]:
    """The first batch of TVM's default search."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    context = ms.TuneContext(
        tvm.ir.load_json(task.module_json),
        target=target,
        space_generator="post-order-apply",
        search_strategy=ms.search_strategy.EvolutionarySearch(population_size=order.population),
        task_name=task.name,
        rand_state=order.seed + 1,
        num_threads=order.workers,
    )
    context.pre_tuning(
        max_trials=order.candidates,
        num_trials_per_iter=order.candidates,
        design_spaces=context.generate_design_space(),
        database=ms.database.MemoryDatabase(),
        cost_model=ms.cost_model.RandomModel(),
    )
    return list(context.generate_measure_candidates() or [])


def run(order: Order) -> Outcome:
    """Search and build, one after the other, as `tune_tasks` does."""
    started = time.time()
    import tvm
    import tvm.s_tir.tensor_intrin
    from tvm.s_tir import meta_schedule as ms

    imported = time.time()
    target = tvm.target.Target(json.loads(order.target_json))
    found = [each for task in order.tasks for each in candidates_of(order, task, target)]
    searched = time.time()
    folder = order.folder
    builder = ms.builder.LocalBuilder(
        max_workers=order.workers,
        timeout_sec=order.timeout_seconds,
        f_build=BUILD,
        initializer=lambda: register_build(folder),
    )
    ready = time.time()  # the constructor starts workers, to look for the function, and ends them
    results = builder.build([ms.builder.BuilderInput(each.sch.mod, target) for each in found])
    ended = time.time()
    for result in results:
        if result.error_msg:
            print(result.error_msg[-1000:], file=sys.stderr)
    notes = [float(note.read_text()) for note in Path(folder).glob("*.started")]
    return Outcome(
        built=sum(result.artifact_path is not None for result in results),
        failed=sum(result.artifact_path is None for result in results),
        import_seconds=imported - started,
        search_seconds=searched - imported,
        build_seconds=ended - ready,
        start_seconds=min(notes, default=ended) - ready,
    )


def main() -> None:
    order: Order = pickle.loads(Path(sys.argv[1]).read_bytes())
    print(json.dumps(asdict(run(order))), flush=True)


if __name__ == "__main__":
    main()
