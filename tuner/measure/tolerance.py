"""How far a right result may be from the reference, by dtype and reduction length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Head-room over the random-walk growth of rounding errors: reassociation, FMA, vectorized
#: transcendental functions. A single missing term of n stays 1 / (_SAFETY · eps · n) times larger
#: than the tolerance, so a skipped reduction step is caught up to n = 100,000 in float32.
_SAFETY = 64.0
#: Half precision has no room for that: at 64, a sum of 256 products could as well be all zeros.
_HALF_SAFETY = 8.0
_EPSILONS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """|actual - reference| <= absolute + relative · |reference|, element by element."""

    relative: float
    absolute: float


def tolerance(dtype: str, reduction_length: int, reference: NDArray[np.generic]) -> Tolerance:
    """The tolerance of one output.

    Rounding errors of a sum of n terms grow like eps · sqrt(n) (Higham, *Accuracy and Stability of
    Numerical Algorithms*, ch. 4, for errors of random sign); the absolute part scales with the
    reference's root mean square, since terms cancel in small elements.

    Args:
        dtype: the output's dtype; integers must be equal.
        reduction_length: accumulations into one element.
        reference: the right result, any shape.
    """
    epsilon = _EPSILONS.get(dtype)
    if epsilon is None:
        return Tolerance(relative=0.0, absolute=0.0)
    safety = _HALF_SAFETY if epsilon > _EPSILONS["float32"] else _SAFETY
    grown = safety * epsilon * max(1, reduction_length) ** 0.5
    values = np.asarray(reference, dtype=np.float64)
    finite = values[np.isfinite(values)]
    scale = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    return Tolerance(relative=grown, absolute=grown * scale)


def difference(
    actual: NDArray[np.generic], reference: NDArray[np.generic], allowed: Tolerance
) -> str | None:
    """Return what is wrong with `actual` in one line, or None if it is right.

    Args:
        actual: the candidate's output, same shape as `reference`.
        reference: the right result; NaN where the operator itself gives NaN.
        allowed: from `tolerance`.
    """
    got = np.asarray(actual, dtype=np.float64)
    want = np.asarray(reference, dtype=np.float64)
    # In their own dtype: float64 cannot tell large integers apart.
    same = np.asarray(actual == reference) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        close = np.abs(got - want) <= allowed.absolute + allowed.relative * np.abs(want)
    # Nothing but infinity itself is close to infinity.
    right = same | (close & np.isfinite(want) & (reference.dtype.kind not in "biu"))
    wrong = int(right.size - np.count_nonzero(right))
    if not wrong:
        return None
    unwritten = int(np.count_nonzero(np.isnan(got) & ~np.isnan(want)))
    place = np.unravel_index(int(np.argmin(right)), right.shape)
    where = "[" + ", ".join(map(str, map(int, place))) + "]"
    note = f", {unwritten} never written" if unwritten else ""
    return (
        f"{wrong} of {right.size} elements are wrong{note}; first at {where}: "
        f"{got[place]:.6g} instead of {want[place]:.6g}"
    )
