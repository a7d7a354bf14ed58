from __future__ import annotations

import pytest

from tests.sharding.graphs.rooflines import Roofline
from tune_farm.sharding import compose
from tune_farm.sharding.compose import ModelForecast, Pass, forecast
from tune_farm.sharding.graphs.operator import Wanted
from tune_farm.sharding.graphs.registry import graph_names, graph_of
from tune_farm.tuner.predictor.forecast.catalogue import chip_of


def told(model: str, gpu: str = "h100", *, batch: int = 1, sequence: int = 128) -> ModelForecast:
    wanted = Wanted(batch=batch, sequence=sequence)
    return forecast(graph_of(model, wanted), chip_of(gpu), Roofline())


def test_a_pass_takes_the_longer_of_device_and_host() -> None:
    by_device = Pass(device_seconds=1e-3, launches=10)
    assert by_device.seconds == pytest.approx(1e-3 + 10 * compose.GAP_SECONDS)
    by_host = Pass(device_seconds=1e-6, launches=10)
    assert by_host.seconds == pytest.approx(10 * compose.DISPATCH_SECONDS)
    waiting = Pass(launches=10, waits=2)
    assert waiting.seconds == pytest.approx(by_host.seconds + 2 * compose.WAIT_SECONDS)


def test_parts_add_up() -> None:
    one = told("gpt2-large", batch=4, sequence=512)
    assert one.backward == Pass()
    assert one.device.expected == pytest.approx(one.forward.device_seconds)
    assert one.device.expected == pytest.approx(sum(e.seconds.expected for e in one.operators))
    assert one.device.kernels == one.forward.launches
    assert one.seconds == pytest.approx(one.device.expected + one.launch_seconds)
    assert one.device.roofline == pytest.approx(one.device.expected)


def test_a_long_model_is_bound_by_its_kernels_and_a_short_one_by_its_host() -> None:
    long, short = (told("gpt2-large", batch=batch, sequence=512) for batch in (8, 1))
    assert long.launch_seconds == pytest.approx(long.forward.launches * compose.GAP_SECONDS)
    tiny = told("gpt2-large", gpu="b200", batch=1, sequence=16)
    assert tiny.seconds == pytest.approx(tiny.forward.launches * compose.DISPATCH_SECONDS)
    assert short.seconds < long.seconds


def test_training_goes_back_for_about_twice_the_time() -> None:
    graph = graph_of("gpt3-xl", Wanted(batch=2, sequence=2048, training=True))
    one = forecast(graph, chip_of("h100"), Roofline())
    assert 1.7 < one.backward.seconds / one.forward.seconds < 2.4


def test_the_interval_holds_the_forecast_and_is_wider_than_the_kernels_alone() -> None:
    one = told("bert-large", batch=8, sequence=512)
    assert one.low_seconds < one.seconds < one.high_seconds
    assert one.high_seconds / one.seconds > 1.12
    assert one.low_seconds >= one.device.roofline * 0.8


def test_repeats_of_a_kernel_deviate_together_and_different_kernels_apart() -> None:
    one = told("bert-large", batch=8, sequence=512)
    for each in one.operators:
        if each.seconds.kernels == each.times:
            seconds = each.seconds
            assert seconds.high - seconds.expected == pytest.approx(0.2 * seconds.expected)
    above = one.device.high - one.device.expected
    assert 0.05 * one.device.expected < above < 0.15 * one.device.expected
    by_class = sum((each.high - each.expected) ** 2 for each in one.classes.values())
    assert above == pytest.approx(by_class**0.5)


def test_convolutions_are_extrapolated_with_a_wide_interval() -> None:
    one = told("resnet50", batch=8)
    assert {name for name, each in one.classes.items() if each.is_extrapolated} == {"convolution"}
    convolution = one.classes["convolution"]
    assert convolution.high / convolution.expected == pytest.approx(2.4)
    assert convolution.low / convolution.expected == pytest.approx(0.8 / 2.25)


@pytest.mark.parametrize("model", graph_names())
def test_a_smaller_share_is_never_faster(model: str) -> None:
    graph = graph_of(model, Wanted(batch=2, sequence=128))
    whole = chip_of("a100")
    found = [forecast(graph, whole.share(each), Roofline()).seconds for each in (100, 50, 20)]
    assert found == sorted(found)
