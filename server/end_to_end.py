"""Judges the whole model: is the tuned build right, and is it the faster one."""

from __future__ import annotations

import math
import statistics

from tune_farm.client.messages import Comparison
from tune_farm.server.report.summary import EndToEnd

_CONFIDENCE = 0.95


def judge(comparison: Comparison) -> EndToEnd:
    """Turn paired runs into a verdict: tuned ships only if it is not slower, and not wrong."""
    baseline, tuned = comparison.baseline_seconds, comparison.tuned_seconds
    interval = saved_interval(baseline, tuned)
    is_slower = interval is not None and interval[1] < 0
    agreement = comparison.agreement
    wrong = agreement.wrong if agreement else None
    return EndToEnd(
        baseline_seconds=statistics.median(baseline),
        tuned_seconds=statistics.median(tuned),
        checked=agreement is not None and wrong is None,
        wrong=wrong or "",
        max_relative_error=agreement.max_relative_error if agreement else None,
        rounding_error=agreement.rounding_error if agreement else None,
        repeats=len(tuned),
        saved_interval_seconds=interval,
        shipped="tuned" if wrong is None and not is_slower else "untuned",
    )


def saved_interval(
    baseline: tuple[float, ...], tuned: tuple[float, ...]
) -> tuple[float, float] | None:
    """The 95% confidence interval of the seconds saved; None from under two pairs.

    Student's t over the differences: the two runs of a pair share the machine's mood.
    """
    from scipy import stats

    saved = [before - after for before, after in zip(baseline, tuned, strict=True)]
    if len(saved) < 2:
        return None
    mean, error = statistics.fmean(saved), statistics.stdev(saved) / math.sqrt(len(saved))
    reach = float(stats.t.ppf((1 + _CONFIDENCE) / 2, df=len(saved) - 1)) * error
    return mean - reach, mean + reach
