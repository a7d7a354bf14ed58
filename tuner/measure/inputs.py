"""Inputs that an operator is checked and timed on: seeded, fresh for every candidate."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.types import TensorSpec

#: What integer outputs are filled with before a run, as bytes; floats are filled with NaN.
_POISON_BYTE = 0xA5


def make_inputs(
    arguments: Sequence[TensorSpec], *, task_id: str, positive: bool
) -> list[NDArray[np.generic]]:
    """Draw the inputs of a task; the same task gets the same numbers everywhere.

    Args:
        arguments: all arguments of the task; outputs are left out of the answer.
        task_id: seeds the draw.
        positive: floats from [0.5, 1.5) instead of [-1, 1): for sqrt, log and their like.
    """
    rng = np.random.default_rng(zlib.crc32(task_id.encode()))
    return [_draw(rng, argument, positive) for argument in arguments if not argument.is_output]


def poisoned(argument: TensorSpec) -> NDArray[np.generic]:
    """An output buffer that no right result looks like: NaN, or a fixed odd bit pattern."""
    dtype = np.dtype(argument.dtype)
    if dtype.kind == "f":
        return np.full(argument.shape, np.nan, dtype=dtype)
    if dtype.kind == "b":
        return np.zeros(argument.shape, dtype=dtype)
    raw = np.full((*argument.shape, dtype.itemsize), _POISON_BYTE, dtype=np.uint8)
    return raw.view(dtype).reshape(argument.shape)


def _draw(rng: np.random.Generator, argument: TensorSpec, positive: bool) -> NDArray[np.generic]:
    dtype = np.dtype(argument.dtype)
    if dtype.kind == "f":
        low, high = (0.5, 1.5) if positive else (-1.0, 1.0)
        return rng.uniform(low, high, size=argument.shape).astype(dtype)
    # Integers are indices, masks or ids more often than quantities: 0 and 1 are legal as all three.
    return rng.integers(0, 2, size=argument.shape).astype(dtype)
