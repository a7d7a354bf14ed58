"""What a running farm shows: one frozen picture of it, made by the server, drawn by the screen."""

from __future__ import annotations

from dataclasses import dataclass

#: Phases that the budget is for; finals and the end-to-end check come on top.
_SEARCHING = ("set-up", "baselines", "search")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """One task as it stands."""

    name: str
    weight: int
    trials: int
    baseline_seconds: float | None
    best_seconds: float | None
    state: str  # for people: "waiting", "searching", "finished", …

    @property
    def cost_seconds(self) -> float:
        """What the task costs in one inference as it stands: its importance on a small screen."""
        return self.weight * (self.best_seconds or self.baseline_seconds or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRow:
    """One client and what it does."""

    name: str
    doing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The whole farm at one moment."""

    phase: str  # "set-up", "baselines", "search", "finals", "end-to-end check"
    elapsed_seconds: float  # of the budget's clock
    budget_seconds: float | None
    measured: int
    pruned: int
    failed: tuple[tuple[str, int], ...]  # by fault
    tasks: tuple[TaskRow, ...]
    clients: tuple[ClientRow, ...]
    budget_trials: int | None = None
    repeated: int = 0  # of the measured and failed, those that were tried before
    pace_seconds: float | None = None  # wall time of one trial lately; None: too few
    last_failure: str | None = None
    dashboard_url: str | None = None
    mark: str = ""  # SIMULATED or REPLAY

    @property
    def failed_total(self) -> int:
        """All failures together."""
        return sum(count for _, count in self.failed)

    @property
    def trials(self) -> int:
        """Candidates that were built, each once: measured or failed."""
        return self.measured + self.failed_total - self.repeated

    @property
    def fraction(self) -> float | None:
        """How much of the budget is used, 0 to 1, by the nearer limit; None without any."""
        parts = []
        if self.budget_seconds:
            parts.append(self.elapsed_seconds / self.budget_seconds)
        if self.budget_trials:
            parts.append(self.trials / self.budget_trials)
        return min(1.0, max(parts)) if parts else None

    @property
    def eta_seconds(self) -> float | None:
        """Wall time to the end of the search; None if there is no telling, or it is over."""
        if self.phase not in _SEARCHING:
            return None
        estimates = []
        if self.budget_seconds:
            estimates.append(max(0.0, self.budget_seconds - self.elapsed_seconds))
        if self.budget_trials and self.trials:
            left = max(0, self.budget_trials - self.trials)
            estimates.append(left * (self.pace_seconds or self.elapsed_seconds / self.trials))
        return min(estimates, default=None)
