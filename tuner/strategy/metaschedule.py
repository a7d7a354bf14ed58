"""TVM's own search behind our ask/tell: its space, its evolutionary search, its XGBoost model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tune_farm.tuner.interfaces import Proposal, Pruned
from tune_farm.tuner.loop import RETRIED
from tune_farm.tuner.space.intrinsics import load_intrinsics
from tune_farm.tuner.space.traces import replay, trace_to_json
from tune_farm.tuner.types import Candidate, Failed, Measured, Purpose, Record, Task

#: Asks in a row that gave nothing new, after which a space counts as searched out.
_EMPTY_ASKS = 3
#: TVM's stand-in for "failed" in its databases and cost models, seconds.
_FAILED_SECONDS = 1e10


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaScheduleOptions:
    """How the search samples."""

    sampler: Literal["evolutionary", "random"] = "evolutionary"
    population: int = 64  # schedules an evolutionary generation keeps (TVM's default: 512)
    generations: int = 4
    threads: int = 1
    #: Measured candidates before the cost model ranks; below it TVM evolves towards noise, so we
    #: draw from the space instead: the same distribution at a hundredth of the cost.
    warm_up: int = 100


def new_cost_model(options: MetaScheduleOptions) -> Any:
    """TVM's XGBoost model; one a client, shared by its tasks as `tune_relax` shares it."""
    from tvm.s_tir.meta_schedule.cost_model import XGBModel

    return XGBModel(num_warmup_samples=options.warm_up, num_tuning_cores=options.threads)


class MetaScheduleStrategy:
    """One task's search. All its state follows from the records told and the seed."""

    def __init__(
        self, task: Task, *, cost_model: Any, options: MetaScheduleOptions, seed: int
    ) -> None:
        import tvm
        from tvm.s_tir import meta_schedule as ms

        self._task = task
        self._options = options
        self._cost_model = cost_model
        self._module = tvm.ir.load_json(task.module_json)
        self._target = tvm.target.Target(task.target_json)
        self._arguments = ms.arg_info.ArgInfo.from_entry_func(self._module, False)
        load_intrinsics(self._target, everything=True)  # its rules name all of a GPU's
        self._database = ms.database.MemoryDatabase()
        self._workload = self._database.commit_workload(self._module)
        self._contexts = {
            name: self._context(strategy, seed) for name, strategy in self._search().items()
        }
        self._spaces = self._contexts["random"].generate_design_space()
        self._seen: set[str] = set()  #: ids proposed or told
        self._told: set[str] = set()  #: ids whose outcome was learned
        self._schedules: dict[str, Any] = {}  #: proposed, not yet told: spares a replay

    @property
    def pruned(self) -> Pruned:
        """Nothing that TVM tells of: it draws again until its own checks pass."""
        return Pruned()

    def propose(self, limit: int) -> Sequence[Proposal]:
        """Return up to `limit` new candidates; none when the space gives nothing new."""
        found: list[Candidate] = []
        for _ in range(_EMPTY_ASKS):
            found += self._ask(limit - len(found))
            if len(found) >= limit:
                break
        return [Proposal(candidate=each, purpose=Purpose.SEARCH) for each in found]

    def tell(self, records: Iterable[Record]) -> None:
        """Commit what was measured to the search's database and train the cost model with it."""
        from tvm.s_tir.meta_schedule.database import TuningRecord
        from tvm.s_tir.meta_schedule.runner import RunnerResult
        from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate

        candidates, results = [], []
        for record in records:
            candidate = record.candidate
            if candidate.is_untuned or record.purpose is Purpose.FINAL:
                continue
            self._seen.add(candidate.id)
            if candidate.id in self._told or _is_retried(record):
                continue
            self._told.add(candidate.id)
            schedule = self._schedules.pop(candidate.id, None)
            if schedule is None:
                schedule = replay(self._module, candidate.trace_json)
            outcome = record.outcome
            seconds = list(outcome.repeats_seconds) if isinstance(outcome, Measured) else []
            self._database.commit_tuning_record(
                TuningRecord(
                    schedule.trace,
                    self._workload,
                    seconds or [_FAILED_SECONDS],
                    self._target,
                    self._arguments,
                )
            )
            candidates.append(MeasureCandidate(schedule, self._arguments))
            results.append(RunnerResult(seconds, None) if seconds else RunnerResult(None, "failed"))
        if candidates and self._options.sampler == "evolutionary":
            self._cost_model.update(self._contexts["random"], candidates, results)

    def _search(self) -> dict[str, Any]:
        from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch, ReplayTrace

        searches = {"random": ReplayTrace()}
        if self._options.sampler == "evolutionary":
            searches["evolutionary"] = EvolutionarySearch(
                population_size=self._options.population,
                genetic_num_iters=self._options.generations,
            )
        return searches

    def _context(self, strategy: Any, seed: int) -> Any:
        from tvm.s_tir.meta_schedule import TuneContext

        return TuneContext(
            self._module,
            target=self._target,
            space_generator="post-order-apply",
            search_strategy=strategy,
            task_name=self._task.name,
            rand_state=seed % (2**31 - 2) + 1,
            num_threads=self._options.threads,
        )

    def _ask(self, limit: int) -> list[Candidate]:
        context = self._contexts["evolutionary" if self._is_warm() else "random"]
        context.pre_tuning(
            max_trials=limit,
            num_trials_per_iter=limit,
            design_spaces=self._spaces,
            database=self._database,
            cost_model=self._cost_model,
        )
        proposed = context.generate_measure_candidates() or []
        context.post_tuning()
        return [new for item in proposed if (new := self._register(item.sch)) is not None]

    def _register(self, schedule: Any) -> Candidate | None:
        candidate = Candidate(task_id=self._task.id, trace_json=trace_to_json(schedule.trace))
        if candidate.id in self._seen:
            return None
        self._seen.add(candidate.id)
        self._schedules[candidate.id] = schedule
        return candidate

    def _is_warm(self) -> bool:
        if self._options.sampler != "evolutionary":
            return False
        return bool(self._cost_model.data_size >= self._options.warm_up)


def _is_retried(record: Record) -> bool:
    """Whether the failure was not the candidate's doing, and a second attempt tells more."""
    outcome = record.outcome
    return isinstance(outcome, Failed) and outcome.fault in RETRIED and record.attempt == 0
