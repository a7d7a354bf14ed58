"""The rival: TVM's own `tune_tasks` on the operators that tune-farm would tune, in one process.

Run as `python -m benchmarks.stock_metaschedule '{…}'`; prints one JSON line with the calls of each
operator, then one for each candidate that was built and run, as it is known.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tune_farm.client.devices.cpu import usable_cores
from tune_farm.server.form_choice import Wanted
from tune_farm.server.place import cpu_place
from tune_farm.server.preparation import Prepared, prepare
from tune_farm.sharding.layout import Layout
from tune_farm.sharding.models.spec import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StockOptions:
    """What is tuned, and under which limits."""

    model: str
    tasks: tuple[int, ...] | None  # as `tune-farm tasks --layout given` counts them; None: all
    share_percent: int
    clients: int  # of the other side: decides the cores of a share, and so the target
    trials_per_task: int
    batch: int  # candidates of one round
    population: int
    generations: int
    repeats: int
    repeat_milliseconds: int
    build_timeout_seconds: float
    seed: int
    work_dir: str | None = None  # where TVM's database stays; None: nowhere


def timed_runner(inner: Any) -> Any:
    """TVM's runner, called with one candidate at a time, so that each end is seen and told."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.runner import PyRunner

    class TimedRunner(PyRunner):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()

        def run(self, runner_inputs: Sequence[Any]) -> list[Any]:
            futures = []
            for each in runner_inputs:
                (future,) = inner.run([each])
                result = future.result()
                print(
                    json.dumps({"time": time.time(), "measured": result.run_secs is not None}),
                    flush=True,
                )
                futures.append(future)
            return futures

    return derived_object(TimedRunner)()


def tune(options: StockOptions, prepared: Prepared, cores: int) -> None:
    """Tune as `tune_relax` would."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    target = tvm.target.Target(json.loads(prepared.target_json))
    contexts = [
        ms.TuneContext(
            mod=tvm.ir.load_json(task.module_json),
            target=target,
            space_generator="post-order-apply",
            search_strategy=ms.search_strategy.EvolutionarySearch(
                population_size=options.population, genetic_num_iters=options.generations
            ),
            task_name=task.name,
            rand_state=options.seed + 1 + index,
            num_threads=cores,
        ).clone()
        for index, task in enumerate(prepared.selected)
    ]
    runner = ms.runner.LocalRunner(
        evaluator_config=ms.runner.EvaluatorConfig(
            number=1, repeat=options.repeats, min_repeat_ms=options.repeat_milliseconds
        )
    )
    with ExitStack() as stack:
        folder = options.work_dir or stack.enter_context(tempfile.TemporaryDirectory())
        ms.tune_tasks(
            tasks=contexts,
            task_weights=[float(task.weight) for task in prepared.selected],
            work_dir=folder,
            max_trials_global=options.trials_per_task * len(contexts),
            max_trials_per_task=options.trials_per_task,
            num_trials_per_iter=options.batch,
            builder=ms.builder.LocalBuilder(
                max_workers=cores, timeout_sec=options.build_timeout_seconds
            ),
            runner=timed_runner(runner),
            cost_model=ms.cost_model.XGBModel(num_tuning_cores=cores),
        )


def main() -> None:
    """Prepare and tune."""
    options = StockOptions(**json.loads(sys.argv[1]))
    place = cpu_place(options.share_percent, options.clients)
    prepared = prepare(
        ModelSpec(model=options.model),
        device=place.device,
        machine=place.machine,
        target=None,
        wanted=Wanted(layout=Layout.GIVEN, fast_math=False),
        selection=None if options.tasks is None else tuple(options.tasks),
        with_weights=False,
    )
    weights = {task.id: task.weight for task in prepared.selected}
    print(json.dumps({"weights": weights}), flush=True)
    tune(options, prepared, len(usable_cores()))


if __name__ == "__main__":
    main()
