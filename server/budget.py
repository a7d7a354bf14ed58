"""Where the next trials go: to the task by which the whole model may gain the most.

The rule is the gradient task scheduler of Ansor (Zheng et al., "Ansor: Generating High-Performance
Tensor Programs for Deep Learning", OSDI 2020, section 6). For a task of weight w, whose best of t
trials takes g(t) seconds, one more trial is expected to save

    gain = w * (a * (g(t - n) - g(t)) / n  +  (1 - a) * g(t) / t)

seconds of the model. The first term looks back: what a trial brought over the last n. The second
looks forward with optimism: if t trials brought the task down to g(t), another t might at best
bring it to nothing. It decays by itself, so a task that has stopped gaining gives way, and it never
reaches nothing, so no task is forgotten. Ansor bounds the optimism by what similar tasks reached;
that needs FLOPs that are comparable between kinds of operators, and is left out here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgress:
    """What is known of one task when trials are given out."""

    task_id: str
    weight: int  # calls in one inference
    baseline_seconds: float | None  # untuned
    best_seconds: float | None  # of all trials
    history: tuple[float, ...]  # best seconds after each trial; may begin with the baseline
    trials: int  # done and given out: an answer that is still under way counts
    exhausted: bool  # the strategy has nothing more to propose, or its limit is reached
    failed: bool  # given up

    @property
    def seconds(self) -> float | None:
        """What one call costs as things stand: the untuned build ships if it is the faster."""
        known = [s for s in (self.baseline_seconds, self.best_seconds) if s is not None]
        return min(known, default=None)

    @property
    def is_open(self) -> bool:
        """Whether it can be given trials at all."""
        return not (self.exhausted or self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPolicy:
    """The constants of the rule."""

    backward_share: float = 0.2  # `a`, Ansor's value
    window_trials: int = 32  # `n`: two batches of sixteen

    def __post_init__(self) -> None:
        assert 0.0 <= self.backward_share <= 1.0, self.backward_share
        assert self.window_trials > 0, self.window_trials


DEFAULT_POLICY = BudgetPolicy()


def gain(progress: TaskProgress, policy: BudgetPolicy = DEFAULT_POLICY) -> float:
    """Return the seconds of one inference that one more trial is expected to save; never below 0.

    A task that nothing is known of promises nothing; `next_task` tries it first all the same.
    """
    seconds = progress.seconds
    if seconds is None:
        return 0.0
    back = _drop(progress.history, policy.window_trials)
    forward = seconds / max(progress.trials, 1)
    mix = policy.backward_share * back + (1.0 - policy.backward_share) * forward
    return progress.weight * mix


def next_task(
    progresses: Iterable[TaskProgress],
    candidates: Collection[str],
    costs: Mapping[str, float],
    policy: BudgetPolicy = DEFAULT_POLICY,
) -> str | None:
    """Return the task that the next trials go to, or None if none of the candidates is open.

    Tasks without a trial come first, the costliest before the others; then the largest gain. To
    give out several batches, count each as trials before asking for the next.

    Args:
        progresses: all tasks.
        candidates: ids of the tasks that may be chosen now.
        costs: what each task is expected to cost the model before anything is measured, any unit.
        policy: the constants of the rule.
    """
    open_tasks = [p for p in progresses if p.task_id in candidates and p.is_open]
    ranked = (
        (p.trials > 0, -gain(p, policy) if p.trials else -costs[p.task_id], p.task_id)
        for p in open_tasks
    )
    return min(ranked, default=(False, 0.0, None))[2]


def _drop(history: tuple[float, ...], window: int) -> float:
    """Return the seconds saved by each of the last trials, on average."""
    span = min(window, len(history) - 1)
    if span < 1:
        return 0.0
    return max(0.0, history[-1 - span] - history[-1]) / span
