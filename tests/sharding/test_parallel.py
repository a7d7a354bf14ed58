from __future__ import annotations

import pytest

from tests.sharding.graphs.rooflines import Roofline
from tune_farm.sharding.compose import ModelForecast, forecast
from tune_farm.sharding.graphs.operator import Graph, Wanted
from tune_farm.sharding.graphs.registry import graph_of
from tune_farm.sharding.parallel import Group, Parallel, group_batch, link_of, together
from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.predictor.forecast.catalogue import chip_of


def trained(model: str = "gpt2-large", *, batch: int = 4, ways: int = 1) -> Graph:
    return graph_of(model, Wanted(batch=batch, sequence=1024, training=True, ways=ways))


def of_one(graph: Graph) -> ModelForecast:
    return forecast(graph, chip_of("h100"), Roofline())


def group(kind: Parallel, *, link: float = 900e9, gpus: int = 4, microbatches: int = 1) -> Group:
    return Group(kind=kind, gpus=gpus, microbatches=microbatches, link_bytes_per_second=link)


def test_a_ring_sends_each_byte_once_and_a_half_among_four() -> None:
    four = group(Parallel.TENSOR)
    assert four.message_rate == pytest.approx(324e9)
    assert four.reduce_seconds(324e9) == pytest.approx(1.5, rel=1e-3)
    assert four.reduce_seconds(0) == 0.0


def test_tensor_parallel_adds_its_reductions() -> None:
    graph = trained(ways=4)
    one = of_one(graph)
    four = group(Parallel.TENSOR)
    joint = together(one, graph, four)
    each = four.reduce_seconds(4 * 4 * 1024 * 1280)
    # Forward after words, attention and MLP; back before attention, MLP and head.
    assert joint.exchange_seconds == pytest.approx(2 * (2 * 36 + 1) * each)
    assert joint.seconds == pytest.approx(one.seconds + joint.exchange_seconds)


def test_data_parallel_hides_what_the_backward_pass_covers() -> None:
    graph = trained(batch=1)
    one = of_one(graph)
    fast = together(one, graph, group(Parallel.DATA))
    embeddings = group(Parallel.DATA).reduce_seconds(4 * (50257 + 1024) * 1280)
    assert fast.exchange_seconds == pytest.approx(embeddings)
    slow = together(one, graph, group(Parallel.DATA, link=1e9))
    assert slow.seconds > one.forward.seconds + 1.5 * 4 * graph.parameters / 0.36e9


def test_a_pipeline_of_one_microbatch_takes_turns() -> None:
    graph = trained()
    one = of_one(graph)
    joint = together(one, graph, group(Parallel.PIPELINE))
    crossing = 4 * 4 * 1024 * 1280 / 324e9
    assert joint.exchange_seconds == pytest.approx(6 * crossing)
    assert joint.seconds == pytest.approx(one.seconds + joint.exchange_seconds)


def test_microbatches_fill_a_pipeline() -> None:
    whole, quarter = trained(batch=4), trained(batch=1)
    one_turn = together(of_one(whole), whole, group(Parallel.PIPELINE))
    piped = together(of_one(quarter), quarter, group(Parallel.PIPELINE, microbatches=4))
    # 7 turns of a quarter of the batch in place of 4 of the whole batch.
    assert 7 / 16 < piped.seconds / one_turn.seconds < 0.75


def test_the_interval_grows_with_the_time() -> None:
    graph = trained(ways=4)
    one = of_one(graph)
    joint = together(one, graph, group(Parallel.TENSOR))
    assert joint.low_seconds / joint.seconds == pytest.approx(one.low_seconds / one.seconds)
    assert joint.high_seconds > joint.seconds


@pytest.mark.parametrize(
    ("kind", "microbatches", "batch"),
    [(Parallel.DATA, 1, 2), (Parallel.TENSOR, 1, 8), (Parallel.PIPELINE, 4, 2)],
)
def test_the_batch_of_one_gpu(kind: Parallel, microbatches: int, batch: int) -> None:
    assert group_batch(8, kind, 4, microbatches) == batch


def test_what_cannot_be_divided_is_said() -> None:
    with pytest.raises(UsageError, match="a batch of 6 can't be divided by 4"):
        group_batch(6, Parallel.DATA, 4, 1)
    graph = graph_of("resnet18", Wanted(batch=4, training=True))
    with pytest.raises(UsageError, match="0 layers can't be divided among 4 GPUs"):
        together(of_one(graph), graph, group(Parallel.PIPELINE))


def test_links_are_known_where_there_is_nvlink() -> None:
    assert link_of(chip_of("h100")) == 900e9
    assert link_of(chip_of("a100-sxm")) == 600e9
    for name in ("l4", "h100/1g.10gb"):
        with pytest.raises(UsageError, match="is not known; give --link"):
            link_of(chip_of(name))
