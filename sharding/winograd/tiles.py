"""How a Winograd convolution's output is cut into tiles, and the sizes that follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tune_farm.sharding.winograd.convolution import Convolution
from tune_farm.sharding.winograd.matrices import KERNEL, transform_weight

#: Channels side by side: a cache line of float32.
LANES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """Tiles of an output; the last ones of a row or column may reach beyond it."""

    size: int  # outputs along each dimension
    batch: int
    rows: int  # tiles along the height of one sample
    columns: int

    @classmethod
    def of(cls, convolution: Convolution, size: int) -> Tiles:
        """The tiles of one convolution's output."""
        return cls(
            size=size,
            batch=convolution.batch,
            rows=-(-convolution.out_height // size),
            columns=-(-convolution.out_width // size),
        )

    @property
    def points(self) -> int:
        """Multiplications of one tile, channel and filter."""
        return (self.size + KERNEL - 1) ** 2

    @property
    def count(self) -> int:
        """Tiles of all samples."""
        return self.batch * self.rows * self.columns

    def index(self, sample: Any, row: Any, column: Any) -> Any:
        """The number of a tile; numbers or expressions."""
        return (sample * self.rows + row) * self.columns + column

    def weight_shape(self, channels: int, filters: int) -> tuple[int, ...]:
        """The shape of transformed weights, in panels."""
        return self.points, filters // LANES, channels, LANES


def pack_weight(weight: npt.NDArray[np.generic], tile: int) -> npt.NDArray[np.generic]:
    """Transform a kernel and lay it in panels.

    Args:
        weight: (3, 3, channels, filters), or in panels: (filters / n, 3, 3, channels, n).
        tile: outputs of one tile along each dimension.

    Returns:
        (points, filters / LANES, channels, LANES).
    """
    plain = weight
    if weight.ndim == KERNEL + 2:
        moved = np.moveaxis(weight, 0, -2)
        plain = moved.reshape(*moved.shape[:-2], -1)
    transformed = transform_weight(plain, tile)
    points, channels, filters = transformed.shape
    panels = transformed.reshape(points, channels, filters // LANES, LANES)
    return np.ascontiguousarray(panels.transpose(0, 2, 1, 3))
