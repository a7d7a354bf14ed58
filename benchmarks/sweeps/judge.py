"""What a sweep says of what was kept: how much of the true best is in it, and how good the best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.sweeps.sweep import Floats, Ints, Sweep

_TOP = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Of one choice of kept drafts."""

    recall: float  # part of the true top 1% that was kept
    regret: float  # how much slower the best kept is than the true best, as a part of it


def judge(sweep: Sweep, kept: Ints) -> Verdict:
    """Compare the kept with the truth; what noise can't tell from the last of the top is as good.

    Drafts surely in the top 1% count each; of those within twice the noise of its bound, as many
    as are left of the 1%.
    """
    truth = sweep.truth
    ran = int(np.isfinite(sweep.seconds).sum())
    count = max(1, round(_TOP * ran))
    bound = float(np.sort(truth)[count - 1])
    margin = 1 + 2 * sweep.noise
    sure = np.flatnonzero(truth * margin < bound)
    tied = np.flatnonzero((truth * margin >= bound) & (truth <= bound * margin))
    found = np.isin(sure, kept).sum() + min(np.isin(tied, kept).sum(), count - len(sure))
    return Verdict(
        recall=float(found / count),
        regret=float(truth[kept].min() / truth.min() - 1),
    )


def best_part(seconds: Floats, keep: float) -> Ints:
    """Rows of the fastest by prediction, such a part of all."""
    return np.argsort(seconds, kind="stable")[: round(keep * len(seconds))]
