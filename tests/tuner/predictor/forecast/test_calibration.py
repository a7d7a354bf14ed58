from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.tuner.predictor.forecast.kernels_at_random import kernels_at_random
from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.predictor.forecast.calibration import CalibratedForecaster
from tune_farm.tuner.predictor.forecast.catalogue import chip_of
from tune_farm.tuner.predictor.forecast.kernels import Kernel, KernelKind
from tune_farm.tuner.predictor.forecast.measured import COLUMNS, MeasuredKernel, read_measured
from tune_farm.tuner.predictor.forecast.shipped import ShippedForecaster

H100 = chip_of("h100")


def measured(
    kind: KernelKind, factor: float, count: int = 10, scatter: float = 0.0
) -> list[MeasuredKernel]:
    """Kernels of a class that all take so many times what the shipped numbers say."""
    kernels = [each for each in kernels_at_random(4 * count, seed=1) if each.kind is kind]
    told = ShippedForecaster().predict(kernels, H100)
    inside = [index for index in range(len(kernels)) if not told.is_outside[index]][:count]
    noise = np.exp(scatter * np.random.default_rng(0).standard_normal(len(inside)))
    seconds = told.device_seconds[inside] * factor * noise
    return [
        MeasuredKernel(kernel=kernels[index], seconds=float(each))
        for index, each in zip(inside, seconds, strict=True)
    ]


def of(kind: KernelKind, kernels: Sequence[Kernel]) -> list[int]:
    return [index for index, each in enumerate(kernels) if each.kind is kind]


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.6])
def test_kernels_that_agree_correct_their_class_and_no_other(factor: float) -> None:
    kernels = kernels_at_random(20)
    base = ShippedForecaster()
    calibrated = CalibratedForecaster(base, measured(KernelKind.LINEAR, factor), H100)

    before, after = base.predict(kernels, H100), calibrated.predict(kernels, H100)

    ratios = after.device_seconds / before.device_seconds
    linear = [index for index in of(KernelKind.LINEAR, kernels) if not before.is_outside[index]]
    assert ratios[linear] == pytest.approx(factor, rel=0.02)
    others = [index for index in range(len(kernels)) if index not in linear]
    assert (ratios[others] == 1).all()
    width = after.high_seconds / after.low_seconds
    assert (width[linear] < (before.high_seconds / before.low_seconds)[linear]).all()
    assert (after.low_seconds <= after.device_seconds).all()
    assert (after.device_seconds <= after.high_seconds).all()


def test_one_kernel_is_believed_less_than_ten() -> None:
    one, ten = (
        CalibratedForecaster(
            ShippedForecaster(), measured(KernelKind.SOFTMAX, 1.3, count, scatter=0.2), H100
        ).gains[0]
        for count in (1, 10)
    )

    assert 1 < one.factor < ten.factor < 1.5
    assert one.error_after is None
    assert ten.error_after is not None
    assert ten.error_after < ten.error_before


def test_the_interval_holds_nine_of_ten_of_those_that_scatter() -> None:
    many = measured(KernelKind.LINEAR, 1.2, 200, scatter=0.15)
    calibrated = CalibratedForecaster(ShippedForecaster(), many[:20], H100)

    told = calibrated.predict([each.kernel for each in many[20:]], H100)

    seconds = np.array([each.seconds for each in many[20:]])
    inside = (told.low_seconds <= seconds) & (seconds <= told.high_seconds)
    assert 0.8 < inside.mean() < 0.99


GOOD = "linear,1,512,1024,4096,,0.25"


def file_of(folder: Path, *lines: str, header: str = ",".join(COLUMNS)) -> Path:
    path = folder / "measured.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_a_file_is_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, GOOD, "elementwise,1,64,1,100,add,0.5")

    linear, add = read_measured(path)

    assert linear.seconds == pytest.approx(0.25e-3)
    assert linear.kernel.moved_bytes == 4 * (512 * 1024 + 1024 * 4096 + 512 * 4096 + 4096)
    assert (add.kernel.operation, add.kernel.moved_bytes) == ("add", 12 * 6400)


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("conv,1,1,1,1,,1", "line 2: kind is 'conv'"),
        ("linear,1,0,8,8,,1", "line 2: rows is '0'"),
        ("linear,1,8,8.5,8,,1", "line 2: depth is '8.5'"),
        ("linear,1,8,8,8,,-1", "line 2: milliseconds is '-1'"),
        ("linear,1,8,8,8,,nan", "line 2: milliseconds is 'nan'"),
        ("linear,1,8", "line 2: depth is None"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, line: str, cause: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_measured(file_of(tmp_path, line))
    assert cause in caught.value.cause
    assert caught.value.exit_code == 2


def test_a_file_that_is_no_such_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no column 'milliseconds'"):
        read_measured(file_of(tmp_path, header=",".join(COLUMNS[:-1])))
    with pytest.raises(UsageError, match="no measured kernel"):
        read_measured(file_of(tmp_path))
    with pytest.raises(UsageError, match="No such file"):
        read_measured(tmp_path / "absent.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        read_measured(tmp_path / "binary.csv")
