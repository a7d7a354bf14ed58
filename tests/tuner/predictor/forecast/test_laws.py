"""Laws of single classes: what each was written for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.tuner.predictor.forecast.kernels_at_random import product, row_kernel
from tune_farm.tuner.predictor.forecast.catalogue import catalogue
from tune_farm.tuner.predictor.forecast.chip import Chip
from tune_farm.tuner.predictor.forecast.kernels import Kernel, KernelKind
from tune_farm.tuner.predictor.forecast.laws import law_seconds
from tune_farm.tuner.predictor.forecast.library import chosen
from tune_farm.tuner.predictor.forecast.power import process_efficiency, sustained_flops
from tune_farm.tuner.predictor.forecast.sizes import sizes_of
from tune_farm.tuner.predictor.forecast.trained import trained

A100, P100, T4, H100 = (catalogue()[name] for name in ("a100", "p100", "t4", "h100"))


def told(kernel: Kernel, chip: Chip = A100) -> float:
    numbers = trained().classes[kernel.kind].numbers
    return float(law_seconds(kernel.kind, sizes_of([kernel]), chip, numbers)[0])


def test_one_block_too_many_is_another_round() -> None:
    full = product(A100.sms * 8, 128, 4096, 128)
    more = product(A100.sms * 8 + 1, 128, 4096, 128)

    assert told(more) > 1.08 * told(full)


def test_a_part_of_a_tile_costs_a_whole_one() -> None:
    assert told(product(432, 128, 2048, 128)) == pytest.approx(
        told(product(432, 100, 2048, 100)), rel=0.05
    )


def test_few_blocks_of_long_sums_are_split() -> None:
    numbers = trained().classes[KernelKind.LINEAR].numbers
    sizes = sizes_of([product(1, 64, 32768, 64), product(1, 8192, 64, 8192)])

    splits = chosen(sizes, A100, numbers, is_batched=False).splits
    assert splits[0] > 1
    assert splits[1] == 1


def test_rows_that_crowd_l2_are_read_again() -> None:
    long_rows = row_kernel(KernelKind.LAYER_NORM, 16384, 4096)
    roomy = replace(P100, l2_bytes=64 * 2**20)

    assert told(long_rows, P100) > 1.2 * told(long_rows, roomy)


def test_what_l2_holds_is_not_asked_of_dram() -> None:
    small = row_kernel(KernelKind.ELEMENTWISE, 1024, 1024)
    slow = replace(A100, dram_bytes_per_second=A100.dram_bytes_per_second / 4)

    assert told(small, slow) < 3 * told(small, A100)
    large = row_kernel(KernelKind.ELEMENTWISE, 16384, 16384)
    assert told(large, slow) > 3.5 * told(large, A100)


def test_energy_falls_with_the_process() -> None:
    sizes = (16, 12, 8, 7, 5, 4)
    efficiencies = [process_efficiency(replace(T4, process_nanometers=size)) for size in sizes]

    assert efficiencies == sorted(efficiencies)
    assert process_efficiency(replace(T4, process_nanometers=28)) == 1.0
    assert process_efficiency(replace(T4, process_nanometers=6)) == efficiencies[3]


def test_a_share_keeps_the_boards_power_and_an_instance_does_not() -> None:
    numbers = {"gigaflops_per_watt": 70.0}
    whole = sustained_flops(A100, numbers)

    assert sustained_flops(A100.share(50), numbers) == whole
    instance = replace(A100, sms=54, is_instance=True)
    assert sustained_flops(instance, numbers) == pytest.approx(whole / 2)


def test_times_follow_the_work() -> None:
    for kind in (KernelKind.SOFTMAX, KernelKind.LAYER_NORM, KernelKind.ELEMENTWISE):
        once, twice = (told(row_kernel(kind, rows, 2048)) for rows in (32768, 65536))
        assert twice == pytest.approx(2 * once, rel=0.1)
    depths = np.array([told(product(64, 512, depth, 512)) for depth in (256, 512, 1024)])
    assert (np.diff(depths) > 0).all()
