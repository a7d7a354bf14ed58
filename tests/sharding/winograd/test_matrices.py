"""The transforms are those of convolutions of 3, and lose as many digits as their growth says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tune_farm.sharding.winograd.matrices import (
    KERNEL,
    OF_INPUT,
    OF_OUTPUT,
    OF_WEIGHT,
    TILES,
    growth,
    transform_weight,
)

Floats = NDArray[np.floating[Any]]


def tile_of(data: Floats, weight: Floats, tile: int) -> Floats:
    """One tile by Winograd: (cases, tile + 2, tile + 2) with (cases, 3, 3), in their own dtype."""
    of_input, of_weight, of_output = (
        np.array(each[tile]).astype(data.dtype) for each in (OF_INPUT, OF_WEIGHT, OF_OUTPUT)
    )
    products = (of_weight @ weight @ of_weight.T) * (of_input @ data @ of_input.T)
    return np.asarray(of_output @ products @ of_output.T)


def direct(data: Floats, weight: Floats, tile: int) -> Floats:
    total = np.zeros((len(data), tile, tile), data.dtype)
    for row in range(KERNEL):
        for column in range(KERNEL):
            window = data[:, row : row + tile, column : column + tile]
            total += window * weight[:, row, column, None, None]
    return total


def cases(tile: int, count: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(tile)
    return (
        rng.standard_normal((count, tile + 2, tile + 2)),
        rng.standard_normal((count, KERNEL, KERNEL)),
    )


@pytest.mark.parametrize("tile", TILES)
def test_a_tile_is_the_convolution(tile: int) -> None:
    data, weight = cases(tile, 10)

    assert np.abs(tile_of(data, weight, tile) - direct(data, weight, tile)).max() < 1e-12


@pytest.mark.parametrize("tile", TILES)
def test_a_weight_is_transformed_along_both_dimensions(tile: int) -> None:
    weight = np.random.default_rng(0).standard_normal((KERNEL, KERNEL, 2, 5))
    matrix = np.array(OF_WEIGHT[tile])

    transformed = transform_weight(weight, tile)

    assert transformed.shape == ((tile + 2) ** 2, 2, 5)
    expected = matrix @ weight[:, :, 1, 3] @ matrix.T
    assert np.abs(np.asarray(transformed[:, 1, 3], np.float64) - expected.ravel()).max() < 1e-12


@pytest.mark.parametrize("tile", TILES)
def test_errors_grow_by_what_is_said(tile: int) -> None:
    data, weight = (np.asarray(each, np.float32) for each in cases(tile, 4000))
    exact = direct(data.astype(np.float64), weight.astype(np.float64), tile)

    def error(found: Floats) -> Floats:
        """Of each output of a tile, over all cases."""
        return np.asarray(np.sqrt(((found - exact) ** 2).mean(axis=0)))

    grown = error(tile_of(data, weight, tile)).max() / error(direct(data, weight, tile)).max()
    assert grown == pytest.approx(growth(tile), rel=0.5)


def test_larger_tiles_lose_more() -> None:
    assert growth(2) == pytest.approx(5 / 3)
    assert growth(4) > 10 * growth(2)
