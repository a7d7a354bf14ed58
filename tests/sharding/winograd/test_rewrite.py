"""A rewritten model computes what the model as given does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import tvm

from tests.sharding.test_lower import random_inputs, run_compiled, run_reference
from tests.sharding.winograd.networks import network
from tune_farm.sharding.extract import extract
from tune_farm.sharding.layout import Layout
from tune_farm.sharding.lower import LoweredModel, lower
from tune_farm.sharding.winograd.matrices import TILES
from tune_farm.sharding.winograd.rewrite import find_convolutions, rewrite

TARGET = tvm.target.Target({"kind": "llvm", "num-cores": 1})
NETWORKS = {
    "tiles that reach beyond the output": network((1, 32, 9, 11), pads=[1, 1, 1, 1]),
    "no padding": network((1, 32, 10, 6), filters=48),
    "padding of one side, a batch, and an operand": network(
        (2, 32, 7, 8), pads=[0, 2, 2, 0], residual=True
    ),
    "two calls": network((1, 32, 6, 6), pads=[1, 1, 1, 1], times=2),
    "no whole tile": network((1, 64, 3, 3), filters=32, pads=[1, 1, 1, 1]),
}


def packed(name_or_network: object) -> LoweredModel:
    loaded = NETWORKS[name_or_network] if isinstance(name_or_network, str) else name_or_network
    return lower(loaded, TARGET, Layout.PACKED)  # type: ignore[arg-type]


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_rewritten_model_gives_the_same(name: str, tile: int) -> None:
    lowered = packed(name)
    rewritten = rewrite(lowered, dict.fromkeys(find_convolutions(lowered), tile))
    inputs = random_inputs(lowered)

    (expected,) = run_reference(NETWORKS[name].proto, lowered, inputs)
    (found,) = run_compiled(rewritten, inputs, TARGET)

    np.testing.assert_allclose(found, expected, atol=2e-5)
    names = [task.name.partition(".")[0] for task in extract(rewritten, TARGET).tasks]
    epilogue = "add_add_relu" if "operand" in name else "add_relu"
    ours = [each for each in names if each.startswith("winograd")]
    assert ours == ["winograd_input", "winograd_matmul", f"winograd_output_{epilogue}"]


def test_only_what_is_chosen_is_replaced() -> None:
    lowered = packed("no padding")

    assert rewrite(lowered, {}) is lowered
    assert not any("winograd" in task.name for task in extract(lowered, TARGET).tasks)


def test_a_model_without_the_values_of_its_weights_is_rewritten_too() -> None:
    lowered = replace(packed("no padding"), weights=())
    (name,) = find_convolutions(lowered)

    rewritten = rewrite(lowered, {name: 4})

    assert rewritten.weights == ()
    shapes = [tuple(map(int, each.ty.shape.values)) for each in rewritten.module["main"].params]
    assert (36, 3, 32, 16) in shapes


@pytest.mark.parametrize(
    "how",
    [
        {"strides": [2, 2]},
        {"dilations": [2, 2]},
        {"group": 2, "size": (1, 64, 9, 9), "filters": 64},
        {"kernel": 1},
        {"kernel": 5},
        {"size": (1, 16, 9, 9)},
        {"filters": 40},
    ],
)
def test_what_is_no_case_for_winograd_is_not_found(how: Mapping[str, object]) -> None:
    assert find_convolutions(packed(network(**how))) == {}  # type: ignore[arg-type]


def test_a_model_as_given_is_left_alone() -> None:
    lowered = lower(NETWORKS["no padding"], TARGET, Layout.GIVEN)

    assert find_convolutions(lowered) == {}
