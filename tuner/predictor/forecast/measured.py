"""Kernels that were measured on a GPU, from a file of comma-separated values.

Columns: kind (as `KernelKind` names it), batch, rows, depth, columns, operation, milliseconds: of
the device alone, as a row of launches between two events takes them, without the host's part.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.predictor.forecast.kernels import Kernel, KernelKind

COLUMNS = ("kind", "batch", "rows", "depth", "columns", "operation", "milliseconds")
_REMEDY = f"its first line is {','.join(COLUMNS)}; README.md has an example"
_PRODUCTS = (KernelKind.BATCHED_PRODUCT, KernelKind.LINEAR)
_TWO_INPUTS = ("add", "mul", "pow", "div")
_KINDS = {
    kind.value: kind
    for kind in (
        *_PRODUCTS,
        KernelKind.ELEMENTWISE,
        KernelKind.SOFTMAX,
        KernelKind.LAYER_NORM,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredKernel:
    """What a kernel took."""

    kernel: Kernel
    seconds: float  # on the device


def read_measured(path: Path) -> tuple[MeasuredKernel, ...]:
    """All kernels of a file, at least one.

    Raises:
        UsageError: it can't be read, or a line is not of that form; the message names the line.
    """
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            missing = [each for each in COLUMNS if each not in (reader.fieldnames or ())]
            if missing:
                raise UsageError(f"{path} has no column {missing[0]!r}", _REMEDY)
            found = tuple(
                _measured(f"{path}, line {number}", row) for number, row in enumerate(reader, 2)
            )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path} cannot be read: {reason}", _REMEDY) from None
    if not found:
        raise UsageError(f"{path} has no measured kernel", _REMEDY)
    return found


def _measured(where: str, row: Mapping[str, str | None]) -> MeasuredKernel:
    kind = _KINDS.get(row["kind"] or "")
    if kind is None:
        raise UsageError(f"{where}: kind is {row['kind']!r}", f"known are {', '.join(_KINDS)}")
    batch, rows, depth, columns = (
        _count(where, name, row[name]) for name in ("batch", "rows", "depth", "columns")
    )
    operation = row["operation"] or ""
    results = batch * rows * columns
    if kind in _PRODUCTS:
        bias = columns if kind is KernelKind.LINEAR else 0
        elements = batch * (rows * depth + depth * columns) + results + bias
    else:
        elements = results * (3 if operation in _TWO_INPUTS else 2)
    kernel = Kernel(
        kind=kind,
        batch=batch,
        rows=rows,
        depth=depth,
        columns=columns,
        moved_bytes=4 * elements,
        operation=operation,
    )
    return MeasuredKernel(kernel=kernel, seconds=_milliseconds(where, row["milliseconds"]) / 1e3)


def _count(where: str, name: str, text: str | None) -> int:
    if text is None or not text.strip().isdecimal() or int(text) < 1:
        raise UsageError(f"{where}: {name} is {text!r}", "give a whole number, at least 1")
    return int(text)


def _milliseconds(where: str, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError(f"{where}: milliseconds is {text!r}", "give a number above 0")
    return value
