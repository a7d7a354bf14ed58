"""Kernels of all classes, within what forecasts are trained for."""

from __future__ import annotations

import numpy as np

from tune_farm.tuner.predictor.forecast.kernels import Kernel, KernelKind

PRODUCTS = (KernelKind.BATCHED_PRODUCT, KernelKind.LINEAR)


def product(batch: int, rows: int, depth: int, columns: int, dtype: str = "float32") -> Kernel:
    """Batched; of one product a linear layer."""
    return Kernel(
        kind=KernelKind.BATCHED_PRODUCT if batch > 1 else KernelKind.LINEAR,
        batch=batch,
        rows=rows,
        depth=depth,
        columns=columns,
        moved_bytes=4 * batch * (rows * depth + depth * columns + rows * columns),
        dtype=dtype,
    )


def row_kernel(kind: KernelKind, rows: int, columns: int) -> Kernel:
    """Anything that reads and writes each element once."""
    return Kernel(kind=kind, rows=rows, columns=columns, moved_bytes=8 * rows * columns)


def kernels_at_random(count: int, seed: int = 0) -> list[Kernel]:
    """So many of each class."""
    generator = np.random.default_rng(seed)
    found = []
    for kind in KernelKind:
        for _ in range(count):
            rows, depth, columns = (int(n) for n in np.exp2(generator.uniform(0, 12, 3)))
            if kind is KernelKind.BATCHED_PRODUCT:
                batch = int(np.exp2(generator.uniform(1, 8)))
                found.append(product(batch, rows, depth, columns))
            elif kind is KernelKind.LINEAR:
                found.append(product(1, rows, depth, columns))
            else:
                found.append(row_kernel(kind, rows, columns))
    return found
