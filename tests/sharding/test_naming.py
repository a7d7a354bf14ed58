from __future__ import annotations

import pytest

from tune_farm.sharding.naming import kind_of, readable_name, shape_text, unique_names


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("fused_conv2d1_add1_add2_relu1", "conv2d_add_add_relu"),
        ("max_pool2d", "max_pool2d"),
        ("layer_norm3", "layer_norm"),
        (
            "fused_matmul_add_divide_erf_add1_multiply_multiply1",
            "matmul_add_divide_erf_add_multiply",
        ),
    ],
)
def test_counters_are_dropped(function: str, name: str) -> None:
    assert readable_name(function) == name


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("fused_conv2d1_add1_relu1", "conv2d"),
        ("fused_conv2d_transpose_add", "conv_transpose"),
        ("max_pool2d", "pool"),
        ("adaptive_avg_pool2d", "pool"),
        ("fused_matmul4_add1", "matmul"),
        ("softmax2", "softmax"),
        ("take1", "gather"),
        ("mean", "reduce"),
        ("fused_reshape1_transpose2", "layout"),
        ("fused_add_maximum", "elementwise"),
    ],
)
def test_kind_is_the_main_operator(function: str, kind: str) -> None:
    assert kind_of(function, has_reduction=False) == kind


def test_unknown_name_is_judged_by_its_reduction() -> None:
    assert kind_of("mystery", has_reduction=True) == "reduce"
    assert kind_of("mystery", has_reduction=False) == "elementwise"


def test_repeated_names_get_a_number() -> None:
    assert unique_names(["a", "b", "a", "a"]) == ["a", "b", "a-2", "a-3"]


def test_shape_text() -> None:
    assert shape_text((1, 64, 7, 7)) == "1x64x7x7"
    assert shape_text(()) == "scalar"
