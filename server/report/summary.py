"""The result of a run: what `summary.json` holds, and the exit code that follows from it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tune_farm.tuner.types import ShareKind


class TaskState(enum.Enum):
    """How a selected task ended."""

    TUNED = "tuned"  # a checked schedule that beats the baseline
    BASELINE = "baseline"  # nothing better was found: the untuned build is kept
    FAILED = "failed"  # neither a schedule nor a baseline could be measured
    PENDING = "pending"  # the run ended before anything was known
    UNUSED = "unused"  # of a variant that is no part of the model: another one is faster


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSummary:
    """The part of the device that each client had."""

    kind: ShareKind
    percent: int  # as asked
    granted: int  # SMs or cores
    total: int  # SMs or cores


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSummary:
    """One selected task."""

    id: str
    name: str
    weight: int | None  # calls in one inference; None only in the report of an unfinished run
    baseline_seconds: float | None
    best_seconds: float | None
    spread_seconds: float | None  # of the best's repeats
    trials: int
    state: TaskState
    reason: str = ""  # why it is not tuned
    variant: str = ""  # of an operator that is tuned in several: which one it belongs to

    @property
    def label(self) -> str:
        """The name for people, with the variant where there are several."""
        return f"{self.name} ({self.variant})" if self.variant else self.name

    @property
    def saved_seconds(self) -> float:
        """What tuning saves in one inference."""
        if self.baseline_seconds is None or self.best_seconds is None:
            return 0.0
        if self.state is TaskState.UNUSED:
            return 0.0
        return max(0.0, self.baseline_seconds - self.best_seconds) * (self.weight or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """An operator that was not tuned at all, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCounts:
    """What became of the candidates of search and audit."""

    measured: int = 0
    pruned_static: int = 0
    pruned_predicted: int = 0
    failed: tuple[tuple[str, int], ...] = ()  # by fault, most frequent first

    @property
    def failed_total(self) -> int:
        """All failures together."""
        return sum(count for _, count in self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndToEnd:
    """The whole model, tuned against untuned."""

    baseline_seconds: float
    tuned_seconds: float
    checked: bool  # the output was compared and is right
    wrong: str = ""  # how the output differs, if it was compared and is not right
    #: Largest difference over the output's largest magnitude; None: it was not compared.
    max_relative_error: float | None = 0.0
    rounding_error: float | None = None  # what rounding alone does to it, where that was asked
    repeats: int = 0  # pairs of runs
    saved_interval_seconds: tuple[float, float] | None = None  # of the paired differences
    shipped: Literal["tuned", "untuned"] = "tuned"

    @property
    def is_slower(self) -> bool:
        """Whether tuned is slower than untuned beyond the interval of the paired repeats."""
        return self.saved_interval_seconds is not None and self.saved_interval_seconds[1] < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorSummary:
    """How well the predictor ranked what it let through."""

    spearman: float | None
    recall_at_keep: float | None
    audited: int
    regret: float | None = None  # best kept over best of all measured, less 1
    #: Of all drafts, kept and rejected; spearman is of the measured.
    kendall_all: float | None = None
    chance_tasks: int = 0  # tasks that it ranked no better than chance: there it stepped back


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All of `summary.json`."""

    run_id: str
    run_directory: str
    model: str
    device: str
    share: ShareSummary
    clients: int
    layout: str  # of the model's tensors: "given" or "packed"
    tasks: tuple[TaskSummary, ...]
    untunable: tuple[LeftOut, ...]  # cannot be tuned
    skipped: tuple[LeftOut, ...]  # were not selected
    trials: TrialCounts
    end_to_end: EndToEnd | None
    wall_seconds: float
    stage_seconds: tuple[tuple[str, float], ...]
    predictor: PredictorSummary | None
    first_failure: str | None
    exit_code: int | None  # None: the run has not ended
    simulated: bool
    checked: bool = True  # outputs of candidates were compared with the untuned operators'
    #: Outputs of a Winograd tile along each dimension, by function of the packed model, of those
    #: that are computed so in `model.tvm.json`.
    winograd_tiles: tuple[tuple[str, int], ...] = ()

    @property
    def mark(self) -> str:
        """What marks every table of a simulated, unchecked or unfinished run; mostly empty."""
        words = ["SIMULATED"] if self.simulated else []
        words += [] if self.checked else ["UNCHECKED"]
        return ", ".join(words + (["UNFINISHED"] if self.exit_code is None else []))


def summary_to_json(summary: Summary) -> dict[str, Any]:
    """Return the object that `summary.json` holds."""
    item = asdict(summary)
    for row, task in zip(item["tasks"], summary.tasks, strict=True):
        row["state"] = task.state.value
    item["trials"]["failed"] = dict(summary.trials.failed)
    item["stage_seconds"] = dict(summary.stage_seconds)
    item["winograd_tiles"] = dict(summary.winograd_tiles)
    return item


def summary_from_json(item: dict[str, Any]) -> Summary:
    """Return the summary an object holds.

    Raises:
        ValueError: a field is missing or impossible; the message names it.
    """
    try:
        return Summary(
            run_id=item["run_id"],
            run_directory=item["run_directory"],
            model=item["model"],
            device=item["device"],
            share=ShareSummary(**item["share"]),
            clients=item["clients"],
            layout=item.get("layout", "given"),  # the only one there was
            tasks=tuple(
                TaskSummary(**row | {"state": TaskState(row["state"])}) for row in item["tasks"]
            ),
            untunable=tuple(LeftOut(**row) for row in item["untunable"]),
            skipped=tuple(LeftOut(**row) for row in item["skipped"]),
            trials=TrialCounts(
                **item["trials"] | {"failed": tuple(item["trials"]["failed"].items())}
            ),
            end_to_end=_end_to_end(item["end_to_end"]),
            wall_seconds=item["wall_seconds"],
            stage_seconds=tuple(item["stage_seconds"].items()),
            predictor=PredictorSummary(**item["predictor"]) if item["predictor"] else None,
            first_failure=item["first_failure"],
            exit_code=item["exit_code"],
            simulated=item["simulated"],
            checked=item.get("checked", True),  # there was no other
            winograd_tiles=tuple(item.get("winograd_tiles", {}).items()),
        )
    except KeyError as error:
        raise ValueError(f"the field {error} is missing") from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"a field has an impossible value: {error}") from error


def _end_to_end(item: dict[str, Any] | None) -> EndToEnd | None:
    if item is None:
        return None
    interval = item.get("saved_interval_seconds")
    return EndToEnd(**item | {"saved_interval_seconds": tuple(interval) if interval else None})


def exit_code_of(
    *,
    tasks: Sequence[TaskSummary],
    trials: TrialCounts,
    end_to_end: EndToEnd | None,
    budget_over: bool = False,
    interrupted_by: int | None = None,
    allow_partial: bool = False,
) -> int:
    """Return the exit code of a run that came to its end without an error.

    Args:
        tasks: the selected tasks.
        trials: what became of their candidates, baselines not counted.
        end_to_end: the check of the whole model, if it was made.
        budget_over: whether the budget, not the search, ended the run.
        interrupted_by: number of the signal that ended it.
        allow_partial: tasks without a result are accepted.
    """
    if interrupted_by is not None:
        return 128 + interrupted_by
    if end_to_end is not None and (end_to_end.wrong or end_to_end.is_slower):
        return 7
    if tasks and trials.measured == 0:
        # Failures tell more than the clock: more time would not have helped.
        if trials.failed_total:
            return 3
        if budget_over:
            return 124
    used = [task for task in tasks if task.state is not TaskState.UNUSED]
    unknown = [task for task in used if task.state in (TaskState.FAILED, TaskState.PENDING)]
    if tasks and len(unknown) == len(used):
        return 3
    return 4 if unknown and not allow_partial else 0
