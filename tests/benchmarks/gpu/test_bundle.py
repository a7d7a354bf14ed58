"""What a bundle holds comes out as it went in, or not at all; and small laws of the check."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu import bundle as bundles
from benchmarks.gpu.bundle import Bundle, Operator, Schedule, read_bundle, write_manifest
from benchmarks.gpu.client import random_values
from benchmarks.gpu.launches import PRODUCTS, row_of, sentinels, tiles_of
from benchmarks.gpu.law import agreement, spearman
from benchmarks.gpu.messages import Buffer, TaskInput
from benchmarks.gpu.parts.elsewhere import losses_of
from benchmarks.gpu.parts.sms import ranges
from tune_farm.tuner.errors import EnvironmentUnusableError
from tune_farm.tuner.types import TensorSpec


def operator() -> Operator:
    return Operator(
        name="dense",
        architecture="sm_90a",
        task_id="1",
        arguments=(
            TensorSpec(shape=(4, 8), dtype="float32", is_output=False),
            TensorSpec(shape=(4,), dtype="float32", is_output=True),
        ),
        reduction_length=8,
        flops=64.0,
        schedules=(
            Schedule(
                id="abcdef0123",
                origin="25%",
                tiles=dict(PRODUCTS[0].launch("", {}).tiles),
                code="a.cubin",
                function="main_kernel",
                grid=(4, 1, 1),
                block=(8, 1, 1),
                order=(1, 0),
            ),
        ),
        places=(0, 3),
        reference=(1.0, 2.0),
    )


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    (tmp_path / "a.cubin").write_bytes(b"code")
    made = Bundle(
        folder=tmp_path,
        made={"python": "3"},
        kernels={"sm_80": "a.cubin", "sm_90": "a.cubin"},
        registers={"sm_90": {"roll_call": 8}},
        operators=(operator(),),
        tvm={"missing": "left out"},
    )
    write_manifest(made)
    return made


def test_a_bundle_is_read_as_it_was_written(bundle: Bundle) -> None:
    assert read_bundle(bundle.folder) == bundle


def test_what_was_changed_or_lost_is_refused(bundle: Bundle) -> None:
    (bundle.folder / "a.cubin").write_bytes(b"else")
    with pytest.raises(EnvironmentUnusableError, match=r"a\.cubin of the bundle was changed"):
        read_bundle(bundle.folder)
    (bundle.folder / "a.cubin").unlink()
    with pytest.raises(EnvironmentUnusableError, match=r"lacks a\.cubin"):
        read_bundle(bundle.folder)


def test_what_is_too_large_to_carry_is_refused(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "MOST_BYTES", 10)
    with pytest.raises(EnvironmentUnusableError, match="--no-tvm"):
        write_manifest(bundle)


@pytest.mark.parametrize(
    ("capability", "found"), [("9.0", True), ("8.9", True), ("8.0", True), ("7.5", False)]
)
def test_code_is_for_later_minor_versions_too(bundle: Bundle, capability: str, found: bool) -> None:
    assert bool(bundle.kernels_for(capability)) == found


def test_schedules_are_for_their_own_architecture(bundle: Bundle) -> None:
    assert len(bundle.operators_for("9.0")) == 1
    assert bundle.operators_for("10.0") == ()


def test_a_kernel_gets_its_parameters_in_its_own_order(bundle: Bundle) -> None:
    (only,) = bundle.operators

    launch = only.launch(only.schedules[0], bundle.folder)

    result, data = launch.arguments
    assert isinstance(result, Buffer)
    assert result.bytes == 16
    assert result.seed is None
    assert isinstance(data, TaskInput)
    assert data.place == 0
    assert launch.code == str(bundle.folder / "a.cubin")


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda each: each.name)
def test_a_products_tiles_add_up(product: object) -> None:
    from benchmarks.gpu.launches import Product

    assert isinstance(product, Product)
    launch = product.launch("", {})
    m, n, k = product.size

    assert launch.tiles["blocks"] * launch.tiles["flops"] == 2 * m * n * k
    assert np.prod(launch.grid) == launch.tiles["blocks"]
    assert launch.tiles["threads"] == launch.block[0] <= 1024
    assert m % product.tile[0] == n % product.tile[1] == k % 16 == 0
    assert row_of(tiles_of(launch.tiles)) == launch.tiles


def test_a_products_reference_is_the_product() -> None:
    product = PRODUCTS[-1]
    m, n, k = product.size
    left, right = random_values(1, m * k), random_values(2, k * n)
    places = product.places(5)

    found = product.reference(places, left.astype(float), right.astype(float))

    exact = left.reshape(m, k).astype(float) @ right.reshape(k, n).astype(float)
    assert np.allclose(found, exact.reshape(-1)[list(places)])


def test_sentinels_fill_the_gpu() -> None:
    assert {each.grid[0] % 132 for each in sentinels("", 132).values()} == {0}


def test_a_law_that_is_off_by_a_factor_agrees_in_all_else() -> None:
    law = [[4.0, 2.0, 1.0], [2.0, 1.0, 0.5]]
    times = [[8.0, 4.0, 2.0], [4.0, 2.0, 1.0]]

    found = agreement(law, times)

    assert found.rank == pytest.approx(1.0)
    assert found.ratio == pytest.approx(2.0)
    assert found.scaling_error == pytest.approx(0.0)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert agreement(law, [times[0], [8.0, 4.0, 2.0]]).scaling_error == pytest.approx(1.0)


def test_what_is_best_at_one_share_costs_something_at_another() -> None:
    seconds = np.array([[1.0, 2.0], [3.0, 2.0]])  # (shares, schedules)

    assert losses_of(seconds).tolist() == [[0.0, 0.5], [1.0, 0.0]]


def test_ranges_are_short() -> None:
    assert ranges((0, 1, 2, 5, 7, 8)) == "0-2,5,7-8"
    assert ranges(()) == ""
