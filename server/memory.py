"""What a run begins with and leaves of what predictors learn: between its clients and the disk."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tune_farm.tuner.predictor.law_version import law_version
from tune_farm.tuner.predictor.lessons import Chapter, Lesson
from tune_farm.tuner.predictor.machine import Cpu, Gpu
from tune_farm.tuner.records.memory import Notebook, Recalled, recall
from tune_farm.tuner.records.schema import Header
from tune_farm.tuner.types import Task

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMemory:
    """One run's; switched off, it recalls and keeps nothing."""

    folder: Path | None = None
    law: str = ""
    recalled: Recalled = Recalled()
    notebook: Notebook | None = None

    @property
    def chapters(self) -> tuple[Chapter, ...]:
        """What clients begin with."""
        return self.recalled.chapters

    @property
    def headline(self) -> str | None:
        """A line for the user, if there is something to tell."""
        if not self.recalled.rows:
            return None
        return (
            f"the predictor remembers {self.recalled.rows} measurements (earlier runs: "
            f"{len(self.chapters)}); --no-memory to go without"
        )

    @property
    def provenance(self) -> dict[str, Any]:
        """What `environment.json` says of it: with equal seeds, equal ones propose the same."""
        if self.folder is None:
            return {"folder": None}
        return {
            "folder": str(self.folder),
            "law": self.law,
            "runs": len(self.chapters),
            "rows": self.recalled.rows,
            "sha256": self.recalled.sha256,
        }

    def keep(self, lessons: Iterable[Lesson], tasks: Mapping[str, Task]) -> None:
        """Write what clients learned; never raises."""
        if self.notebook is not None:
            self.notebook.add(lessons, lambda task_id: tasks[task_id].kind)


def open_memory(folder: Path | None, machine: Cpu | Gpu, header: Header) -> RunMemory:
    """Recall what earlier runs learned, and prepare to keep what this one will.

    Args:
        folder: of all runs' files; None: neither.
        machine: the share, whose law it is about.
        header: of the run's journal.
    """
    if folder is None:
        return RunMemory()
    law = law_version(machine)
    recalled = recall(folder, law, leave_out=header.run_id)
    for line in recalled.damaged:
        _LOG.warning("what an earlier run learned is not used: %s", line)
    if not header.checked:  # a schedule that computes something else teaches nothing
        return RunMemory(folder=folder, law=law, recalled=recalled)
    share = {
        "kind": header.share_kind,
        "granted": header.share_granted,
        "total": header.share_total,
    }
    device = asdict(header.device_class)
    provenance = {"device": device, "share": share, "created": header.created}
    place = " ".join(str(value) for value in (*device.values(), *share.values()))
    notebook = Notebook(folder, run_id=header.run_id, law=law, header=provenance, place=place)
    return RunMemory(folder=folder, law=law, recalled=recalled, notebook=notebook)
