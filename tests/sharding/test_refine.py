from __future__ import annotations

import pytest

from tune_farm.sharding.layout import Layout
from tune_farm.sharding.refine import refined_kind
from tune_farm.tuner.types import TensorSpec

Shape = tuple[int, ...]


def specs(*shapes: Shape) -> list[TensorSpec]:
    """Arguments of which the last is the output."""
    last = len(shapes) - 1
    return [
        TensorSpec(shape=shape, dtype="float32", is_output=index == last)
        for index, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ((16, 8, 3, 3), "conv2d"),
        ((8, 1, 3, 3), "depthwise_conv2d"),
        ((16, 4, 3, 3), "grouped_conv2d"),
    ],
)
def test_convolutions_are_told_apart_by_their_kernel(kernel: Shape, kind: str) -> None:
    arguments = specs((1, 8, 7, 7), kernel, (1, kernel[0], 7, 7))
    assert refined_kind("conv2d", arguments, Layout.GIVEN) == kind


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ((3, 3, 8, 16), "conv2d"),
        ((2, 3, 3, 8, 8), "conv2d"),  # in panels
        ((3, 3, 1, 8), "depthwise_conv2d"),
        ((3, 3, 4, 16), "grouped_conv2d"),
    ],
)
def test_convolutions_are_told_apart_when_channels_are_last(kernel: Shape, kind: str) -> None:
    arguments = specs((1, 7, 7, 8), kernel, (1, 1, 1, 16), (1, 7, 7, 16))
    assert refined_kind("conv2d", arguments, Layout.PACKED) == kind


def test_a_weight_in_panels_is_no_stack_of_matrices() -> None:
    arguments = specs((1, 4, 32), (4, 32, 16), (1, 4, 64))
    assert refined_kind("matmul", arguments, Layout.PACKED) == "matmul"


def test_matmul_of_two_stacks_is_a_batch_matmul() -> None:
    assert (
        refined_kind("matmul", specs((2, 4, 8), (2, 8, 4), (2, 4, 4)), Layout.GIVEN)
        == "batch_matmul"
    )
    assert refined_kind("matmul", specs((2, 4, 8), (8, 4), (2, 4, 4)), Layout.GIVEN) == "matmul"


def test_other_kinds_stay() -> None:
    assert refined_kind("softmax", specs((2, 4), (2, 4)), Layout.GIVEN) == "softmax"


def test_a_product_of_one_operand_with_itself() -> None:
    assert refined_kind("matmul", specs((4, 4), (4, 4)), Layout.GIVEN) == "matmul"
    assert refined_kind("matmul", specs((2, 4, 4), (2, 4, 4)), Layout.GIVEN) == "batch_matmul"
