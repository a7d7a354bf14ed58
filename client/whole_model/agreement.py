"""How far two right builds of a model may be apart, which depends on the model.

Builds that add in another order round differently, and a model may amplify that: a variance taken
as E[x²] - E[x]² of nearly equal values is all rounding. So where outputs differ by more than most
models' do, the untuned build itself is run on arguments that are off by as many units in the last
place as operators may be, and its own movement is the measure. Winograd's operators may be off by
more: their growth of rounding errors (`sharding.winograd.matrices`) widens the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Sequence[NDArray[np.generic]]

#: The part of the output's largest magnitude that is allowed without a second look.
ALLOWED_ERROR = 1e-3
#: Beyond it a model is too sensitive for a comparison to tell right from wrong.
MOST_ALLOWED_ERROR = 0.05
#: Units in the last place by which a right operator's result may be off: what the check of single
#: operators allows a sum of one term (`tuner.measure.tolerance`).
_NUDGE_ULPS = 64
_NUDGES = 3
#: So few nudges show the size of the movement, not its bound.
_MARGIN = 4.0
_SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What a comparison of two builds' outputs found."""

    wrong: str | None  # in one line
    max_relative_error: float  # largest difference over the output's largest magnitude
    rounding_error: float | None  # what rounding alone does to the output, if that was asked


def compare(
    right: Arrays,
    actual: Arrays,
    *,
    arguments: Arrays,
    run_untuned: Callable[[Arrays], Arrays],
    rounding: float = 1.0,
) -> Agreement:
    """Compare the outputs of two builds for the same arguments.

    Args:
        right: the untuned build's outputs.
        actual: the tuned build's.
        arguments: of both.
        run_untuned: runs the untuned build on other arguments; called only if it matters.
        rounding: times a direct sum's errors that the tuned build's operators may have.
    """
    pairs = list(zip(right, actual, strict=True))
    errors = [relative_error(got, want) for want, got in pairs]
    worst = float(np.max(errors, initial=0.0))
    if worst <= ALLOWED_ERROR:
        return Agreement(wrong=None, max_relative_error=worst, rounding_error=None)
    # A NaN on one side alone is never rounding, nor is what no rounding could excuse.
    if not worst <= MOST_ALLOWED_ERROR:
        return Agreement(wrong=_wrong(errors, None), max_relative_error=worst, rounding_error=None)
    moved = _rounding_error(right, arguments, run_untuned, _NUDGE_ULPS * rounding)
    return Agreement(
        wrong=None if worst <= _MARGIN * moved else _wrong(errors, moved),
        max_relative_error=worst,
        rounding_error=moved,
    )


def relative_error(actual: NDArray[np.generic], right: NDArray[np.generic]) -> float:
    """The largest difference over the largest magnitude; NaN if one side alone is NaN."""
    got, want = np.asarray(actual, dtype=np.float64), np.asarray(right, dtype=np.float64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    if same.all():
        return 0.0
    finite = np.abs(want[np.isfinite(want)])
    scale = float(finite.max()) if finite.size else 0.0
    worst = float(np.abs(got - want)[~same].max())
    return worst / scale if scale > 0 else float("inf")


def nudged(
    array: NDArray[np.generic], rng: np.random.Generator, ulps: float = _NUDGE_ULPS
) -> NDArray[np.generic]:
    """A copy, each element off by some units in the last place; integers are left alone."""
    if array.dtype.kind != "f":
        return array
    values: NDArray[np.floating[Any]] = array.astype(array.dtype)
    step = ulps * float(np.finfo(values.dtype).eps)
    signs = rng.choice(np.array([-1.0, 1.0]), size=array.shape)
    return np.asarray(values * (1.0 + step * signs)).astype(array.dtype)


def _rounding_error(
    right: Arrays, arguments: Arrays, run_untuned: Callable[[Arrays], Arrays], ulps: float
) -> float:
    rng = np.random.default_rng(_SEED)
    moved = 0.0
    for _ in range(_NUDGES):
        outputs = run_untuned([nudged(array, rng, ulps) for array in arguments])
        moved = max([moved, *(relative_error(o, w) for o, w in zip(outputs, right, strict=True))])
    return moved


def _wrong(errors: Sequence[float], rounding: float | None) -> str:
    index = next(i for i, error in enumerate(errors) if not error <= ALLOWED_ERROR)
    text = f"output {index} differs by {errors[index]:.2%} of its largest value"
    return text if rounding is None else f"{text}; rounding alone moves it by {rounding:.2%}"
