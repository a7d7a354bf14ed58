"""One client's strategies: each task's own, and what they learn together."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, TypeAlias

from tune_farm.tuner.interfaces import Strategy
from tune_farm.tuner.predictor.lessons import Lesson
from tune_farm.tuner.predictor.tile import TilePredictor
from tune_farm.tuner.strategy.draft import DraftOptions, DraftStrategy
from tune_farm.tuner.strategy.metaschedule import (
    MetaScheduleOptions,
    MetaScheduleStrategy,
    new_cost_model,
)
from tune_farm.tuner.types import Record, Task

SearchOptions: TypeAlias = MetaScheduleOptions | DraftOptions


class NoDesignSpaceError(Exception):
    """TVM has no space of schedules for a task; the message says why, in one line."""


class Strategies:
    """Makes a task's strategy when it is first tuned here, and tells it what is known."""

    def __init__(self, options: SearchOptions, *, seed: int) -> None:
        self._options = options
        self._seed = seed
        self._by_task: dict[str, Strategy] = {}
        self._cost_model: Any = None  #: TVM's, shared as `tune_relax` shares it
        self._predictor: TilePredictor | None = None

    def of(self, task: Task, known: Iterable[Record]) -> Strategy:
        """A task's strategy, having learned the records given.

        Raises:
            NoDesignSpaceError: the task has none for its target.
        """
        records = tuple(known)
        if task.id not in self._by_task:
            # Another seed at each resume: known candidates are not drawn again.
            text = f"{self._seed} {task.id} {len(records)}"
            try:
                self._by_task[task.id] = self._make(task, zlib.crc32(text.encode()))
            except Exception as error:  # whatever an operator or a target makes TVM raise
                cause = " ".join(str(error).split())[:300]
                raise NoDesignSpaceError(f"{type(error).__name__}: {cause}") from error
        strategy = self._by_task[task.id]
        strategy.tell(records)
        return strategy

    def take_lessons(self) -> tuple[Lesson, ...]:
        """What the predictor learned since this was last called; nothing where there is none."""
        return self._predictor.take_lessons() if self._predictor else ()

    def _make(self, task: Task, seed: int) -> Strategy:
        options = self._options
        if isinstance(options, DraftOptions):
            if self._predictor is None:
                self._predictor = TilePredictor(
                    options.machine,
                    threads=options.threads,
                    corrects=options.corrects,
                    memory=options.memory,
                )
            return DraftStrategy(task, predictor=self._predictor, options=options, seed=seed)
        if self._cost_model is None:
            self._cost_model = new_cost_model(options)
        return MetaScheduleStrategy(task, cost_model=self._cost_model, options=options, seed=seed)
