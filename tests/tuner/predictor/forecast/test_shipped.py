"""What the shipped forecasts hold to, whatever numbers they were trained to."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.tuner.predictor.forecast.kernels_at_random import (
    PRODUCTS,
    kernels_at_random,
    product,
    row_kernel,
)
from tune_farm.tuner.predictor.forecast.catalogue import catalogue, chip_of
from tune_farm.tuner.predictor.forecast.chip import Chip
from tune_farm.tuner.predictor.forecast.kernels import Kernel, KernelKind
from tune_farm.tuner.predictor.forecast.shipped import ShippedForecaster

KERNELS = kernels_at_random(40)
CHIPS = [catalogue()[name] for name in ("p4", "p100", "t4", "v100", "a100", "l4", "h100", "b200")]


def seconds(chip: Chip) -> np.ndarray:
    return ShippedForecaster().predict(KERNELS, chip).device_seconds


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_more_sms_are_never_slower(chip: Chip) -> None:
    shares = [seconds(chip.share(percent)) for percent in range(5, 101, 5)]

    for fewer, more in itertools.pairwise(shares):
        assert (more <= fewer * (1 + 1e-9)).all()
    assert (shares[-1] < 0.9 * shares[0]).any()


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("what", ["dram_bytes_per_second", "l2_bytes", "clock_hertz"])
def test_more_of_anything_is_never_slower(chip: Chip, what: str) -> None:
    more = replace(chip, **{what: 1.5 * getattr(chip, what)})

    assert (seconds(more) <= seconds(chip) * (1 + 1e-9)).all()
    assert (seconds(more) < seconds(chip)).any()


@pytest.mark.parametrize("chip", catalogue().values(), ids=lambda chip: chip.name)
def test_no_product_is_faster_than_the_lanes(chip: Chip) -> None:
    told = ShippedForecaster().predict(KERNELS, chip)

    assert np.isfinite(told.high_seconds).all()
    assert (told.low_seconds > 0).all()
    assert (told.low_seconds <= told.device_seconds).all()
    assert (told.device_seconds <= told.high_seconds).all()
    for kernel, predicted in zip(KERNELS, told.device_seconds, strict=True):
        if kernel.kind in PRODUCTS:
            assert predicted >= kernel.flops / chip.peak_flops


def test_a_large_product_uses_much_of_what_a_gpu_has() -> None:
    large = [product(1, 8192, 8192, 8192), product(64, 1024, 1024, 1024)]
    for name in ("v100", "a100", "h100"):
        told = ShippedForecaster().predict(large, catalogue()[name])
        use = [k.flops for k in large] / told.device_seconds / catalogue()[name].peak_flops
        assert (use > 0.5).all(), name


def test_a_board_of_few_watts_does_not_feed_its_lanes() -> None:
    large = [product(1, 8192, 8192, 8192)]
    for name in ("t4", "p4", "l4"):
        told = ShippedForecaster().predict(large, catalogue()[name])
        assert large[0].flops / told.device_seconds[0] < 0.75 * catalogue()[name].peak_flops


def test_a_batch_says_what_each_kernel_alone_says() -> None:
    forecaster, chip = ShippedForecaster(), chip_of("h100")
    mixed = [KERNELS[index] for index in np.random.default_rng(1).permutation(len(KERNELS))[:60]]

    together = forecaster.predict(mixed, chip)
    alone = [forecaster.predict([kernel], chip) for kernel in mixed]

    assert together.device_seconds == pytest.approx([each.device_seconds[0] for each in alone])
    assert together.high_seconds == pytest.approx([each.high_seconds[0] for each in alone])
    assert together.is_outside.tolist() == [bool(each.is_outside[0]) for each in alone]


def test_nothing_asked_is_nothing_told() -> None:
    assert ShippedForecaster().predict([], chip_of("h100")).device_seconds.shape == (0,)


@pytest.mark.parametrize(
    "kernel",
    [
        product(8, 1 << 20, 64, 64),
        product(1, 64, 1 << 24, 64),
        row_kernel(KernelKind.SOFTMAX, 64, 1 << 20),
        row_kernel(KernelKind.ELEMENTWISE, 1 << 20, 1 << 20),
    ],
    ids=lambda kernel: kernel.kind.value,
)
def test_outside_its_range_it_tells_a_roofline_and_says_so(kernel: Kernel) -> None:
    chip = chip_of("a100")
    depth = 1 if kernel.depth == 1 else 64
    inside = replace(kernel, rows=64, columns=64, depth=depth, moved_bytes=1 << 20)
    told = ShippedForecaster().predict([kernel, inside], chip)

    assert told.is_outside.tolist() == [True, False]
    roof = max(
        kernel.flops / chip.peak_flops if kernel.depth > 1 else 0,
        kernel.moved_bytes / chip.dram_bytes_per_second,
    )
    assert told.low_seconds[0] == pytest.approx(roof)
    assert roof < told.device_seconds[0] < 2 * roof
    assert told.high_seconds[0] > 2 * told.device_seconds[0]


def test_products_of_half_precision_are_extrapolated() -> None:
    full, half = product(1, 4096, 4096, 4096), product(1, 4096, 4096, 4096, dtype="float16")
    told = ShippedForecaster().predict([full, half], chip_of("a100"))

    assert told.is_outside.tolist() == [False, True]
    assert told.device_seconds[1] < told.device_seconds[0] / 8


def test_classes_without_rows_borrow_a_law_and_are_less_sure() -> None:
    same = [row_kernel(kind, 4096, 4096) for kind in (KernelKind.ELEMENTWISE, KernelKind.COPY)]
    told = ShippedForecaster().predict(same, chip_of("h100"))

    assert told.device_seconds[0] == pytest.approx(told.device_seconds[1])
    assert told.low_seconds[1] < told.low_seconds[0]
    assert told.high_seconds[1] > told.high_seconds[0]


def test_a_host_without_rows_is_the_fastest_known() -> None:
    forecaster = ShippedForecaster()
    known = [forecaster.host(KernelKind.LINEAR, chip_of(name)) for name in ("t4", "v100", "a100")]
    unknown = forecaster.host(KernelKind.LINEAR, chip_of("h100"))

    total = unknown.call_seconds + unknown.gap_seconds
    assert total <= min(each.call_seconds + each.gap_seconds for each in known)
    assert 1e-6 < total < 1e-4
