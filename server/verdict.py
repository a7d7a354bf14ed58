"""The summary of a run that came to its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tune_farm.server.config import RunConfig
from tune_farm.server.end_to_end import judge
from tune_farm.server.place import Place
from tune_farm.server.preparation import Prepared
from tune_farm.server.progress import task_summaries, trial_counts
from tune_farm.server.report.summary import (
    EndToEnd,
    LeftOut,
    PredictorSummary,
    ShareSummary,
    Summary,
    TaskSummary,
    exit_code_of,
)
from tune_farm.server.search import Search
from tune_farm.tuner.predictor.quality import quality_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All that a summary follows from."""

    config: RunConfig
    place: Place
    prepared: Prepared
    search: Search
    interrupted_by: int | None
    wall_seconds: float
    directory: Path

    def summary(self) -> Summary:
        """Judge the run."""
        search = self.search
        tasks = task_summaries(search.state, interrupted=self.interrupted_by is not None)
        trials = trial_counts(search)
        end_to_end = judge(search.comparison) if search.comparison else None
        return Summary(
            run_id=search.journal.header.run_id,
            run_directory=str(self.directory),
            model=self.config.spec.model,
            device=self.place.device.device_class.name,
            share=ShareSummary(
                kind=self.place.share.kind,
                percent=self.place.share.asked_percent,
                granted=self.place.share.granted,
                total=self.place.share.total,
            ),
            clients=len(self.place.slots),
            layout=search.journal.header.layout,
            tasks=tasks,
            untunable=self._untunable(),
            skipped=self._skipped(),
            trials=trials,
            end_to_end=end_to_end,
            wall_seconds=self.wall_seconds,
            stage_seconds=tuple(search.stage_seconds.items()),
            predictor=self._predictor(),
            first_failure=search.comparison_failure or search.failures.first or _reason(tasks),
            exit_code=self._exit_code(tasks, end_to_end),
            checked=search.journal.header.checked,
            simulated=self.place.simulated is not None,
            winograd_tiles=tuple(self._tiles(end_to_end).items()),
        )

    def _tiles(self, end_to_end: EndToEnd | None) -> dict[str, int]:
        """Of what ships."""
        falls_short = end_to_end is not None and end_to_end.shipped != "tuned"
        if falls_short or self.search.comparison_failure is not None:
            return {}
        return self.search.state.tiles

    def _exit_code(self, tasks: tuple[TaskSummary, ...], end_to_end: EndToEnd | None) -> int:
        search = self.search
        if search.comparison_failure is not None and self.interrupted_by is None:
            return 7  # the tuned build could not be shown to be right: untuned is kept
        budget = search.budget_seconds
        return exit_code_of(
            tasks=tasks,
            trials=trial_counts(search),
            end_to_end=end_to_end,
            budget_over=budget is not None and search.spent_seconds >= budget,
            interrupted_by=self.interrupted_by,
            allow_partial=self.config.allow_partial,
        )

    def _predictor(self) -> PredictorSummary | None:
        if self.config.strategy != "draft" or self.config.predictor == "none":
            return None
        if self.interrupted_by is not None:
            return None  # loading the statistics would take a third of the time there is to end
        quality = quality_of(self.search.journal.records, keep=self.config.keep)
        return PredictorSummary(
            spearman=quality.spearman,
            recall_at_keep=quality.recall_at_keep,
            regret=quality.regret,
            kendall_all=quality.kendall_all,
            audited=quality.audited,
            chance_tasks=quality.chance_tasks,
        )

    def _untunable(self) -> tuple[LeftOut, ...]:
        rows = self.prepared.extraction.untunable
        return tuple(LeftOut(name=row.name, reason=row.reason) for row in rows)

    def _skipped(self) -> tuple[LeftOut, ...]:
        extraction = self.prepared.extraction
        chosen = {task.id for task in self.prepared.selected}
        skipped = [
            LeftOut(name=row.name, reason=f"{row.reason}; {row.remedy}")
            for row in extraction.skipped
        ]
        others = sum(task.id not in chosen for task in extraction.tasks)
        if others:
            name = f"{others} of {len(extraction.tasks)} tasks"
            skipped.append(LeftOut(name=name, reason="not selected by --tasks"))
        return tuple(skipped)


def _reason(tasks: tuple[TaskSummary, ...]) -> str | None:
    return next((task.reason for task in tasks if task.state.value == "failed"), None)
