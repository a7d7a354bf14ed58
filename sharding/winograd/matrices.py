"""The transforms of Winograd's minimal filtering for kernels of 3: F(2, 3) and F(4, 3).

A tile of m outputs along one dimension takes m + 2 inputs d and 3 weights g:

    y = Aᵀ [(G g) ⊙ (Bᵀ d)]

and along two dimensions Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A: (m + 2)² multiplications instead of 9 m²
(Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, section 4).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

KERNEL: Final = 3
#: Outputs of one tile along each dimension. Larger ones lose more digits than they save time.
TILES: Final = (2, 4)

Matrix = tuple[tuple[float, ...], ...]

#: Bᵀ by tile, (tile + 2, tile + 2): of inputs.
OF_INPUT: Final[dict[int, Matrix]] = {
    2: ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    4: (
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
}
#: G by tile, (tile + 2, 3): of weights.
OF_WEIGHT: Final[dict[int, Matrix]] = {
    2: ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
    4: (
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
}
#: Aᵀ by tile, (tile, tile + 2): of products, back to outputs.
OF_OUTPUT: Final[dict[int, Matrix]] = {
    2: ((1, 1, 1, 0), (0, 1, -1, -1)),
    4: (
        (1, 1, 1, 1, 1, 0),
        (0, 1, -1, 2, -2, 0),
        (0, 1, 1, 4, 4, 0),
        (0, 1, -1, 8, -8, 1),
    ),
}


def transform_weight(weight: npt.NDArray[np.generic], tile: int) -> npt.NDArray[np.generic]:
    """Transform a kernel, in float64, rounded once.

    Args:
        weight: (3, 3, channels, filters).
        tile: outputs of one tile along each dimension.

    Returns:
        ((tile + 2)², channels, filters), of the same dtype.
    """
    matrix = np.array(OF_WEIGHT[tile])
    exact = weight.astype(np.float64)
    rows = np.tensordot(matrix, exact, axes=(1, 0))  # (points, 3, channels, filters)
    both = np.tensordot(matrix, rows, axes=(1, 1))  # the other dimension's points first
    transformed: npt.NDArray[np.generic] = both.swapaxes(0, 1).astype(weight.dtype)
    return transformed.reshape(len(matrix) ** 2, *weight.shape[2:])


def growth(tile: int) -> float:
    """How many times the rounding error of a direct sum an output may have.

    Of independent inputs and weights of unit variance the i-th product has the variance
    |G_i|² |Bᵀ_i|², and its relative rounding errors reach output j with the factor Aᵀ_ji; the
    output itself has variance 3. So along one dimension errors grow by

        max over j of sqrt(Σ_i Aᵀ_ji² |G_i|² |Bᵀ_i|² / 3)

    and along two by its square: 1.7 for F(2, 3), 31 for F(4, 3). The argument is that of rounding
    errors of random sign (Higham, "Accuracy and Stability of Numerical Algorithms", ch. 4).
    """
    of_input, of_weight = np.array(OF_INPUT[tile]), np.array(OF_WEIGHT[tile])
    products = (of_weight**2).sum(axis=1) * (of_input**2).sum(axis=1)
    outputs = (np.array(OF_OUTPUT[tile]) ** 2) @ products
    return float(outputs.max() / KERNEL)
