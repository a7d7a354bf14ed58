"""Everything that one run was asked to do, resolved."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import tomli_w

from tune_farm.server.run_directory import OpenMode
from tune_farm.sharding.layout import Layout
from tune_farm.sharding.models.spec import ModelSpec

#: `--effort`: trials a task where neither a budget nor a number of trials is given.
TRIALS_BY_EFFORT = {"quick": 16, "standard": 64, "full": 256}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The resolved configuration of a run; what `config.toml` holds."""

    spec: ModelSpec
    sm_share_percent: int | None  # None: what was set for this job, else all
    clients: int | None  # None: as many as the share allows
    create_mig: bool  # a MIG instance for each client, for as long as the run takes
    static_partitions: bool  # of a GPU's SMs; else active thread percentages
    oversubscribe: bool  # shares of a GPU may add up to more than all of it
    device: str
    target: str | None  # a TVM tag or JSON; None: this device
    layout: Layout | None  # of the model's tensors; None: what is predicted to run faster
    dtype: str | None  # of 16 bits, of products' operands; None: as the model has them
    fast_math: bool  # exp, erf, tanh and softmax as polynomials
    winograd: bool  # for 3x3 convolutions where it is measured to be faster; with fast_math alone
    budget_seconds: float | None
    effort: str  # decides the trials where nothing else limits them
    trials: int | None
    trials_per_task: int | None
    tasks: tuple[int, ...] | None  # indices as `tune-farm tasks` lists them; None: all
    strategy: Literal["draft", "metaschedule", "random"]
    predictor: Literal["tile", "none"]  # of drafts
    keep: float  # part of the drafts that may be measured
    explore: float  # part of what is measured that is taken from the rest
    memory: Path | None  # folder of what all runs taught; None: neither read nor kept
    check: bool  # outputs are compared with the untuned operators' and model's
    seed: int
    population: int  # of the evolutionary search
    build_timeout_seconds: float
    run_timeout_seconds: float | None  # None: from each baseline
    out: Path | None
    mode: OpenMode
    retry_failed: bool  # with `mode` RESUME: what failed is tried again first
    address: str | None
    allow_partial: bool

    @property
    def trials_limit_per_task(self) -> int | None:
        """Trials of each task, if anything limits them."""
        if self.trials_per_task is not None:
            return self.trials_per_task
        if self.budget_seconds is not None or self.trials is not None:
            return None
        return TRIALS_BY_EFFORT[self.effort]

    def to_toml(self) -> str:
        """What `config.toml` holds; TOML has no null, so what was left open is left out."""
        items = {name: value for name, value in self.to_json().items() if value is not None}
        return tomli_w.dumps(items)

    def to_json(self) -> dict[str, Any]:
        """A flat object of JSON-able values."""
        item = asdict(self)
        item.update({f"model_{name}": value for name, value in item.pop("spec").items()})
        item["mode"] = self.mode.value
        item["layout"] = None if self.layout is None else self.layout.value
        item["out"] = None if self.out is None else str(self.out)
        item["memory"] = None if self.memory is None else str(self.memory)
        return item
