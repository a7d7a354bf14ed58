from __future__ import annotations

import pytest

from tune_farm.sharding.graphs.operator import Graph, Wanted
from tune_farm.sharding.graphs.registry import graph_names, graph_of
from tune_farm.sharding.models.registry import builtin_names
from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.predictor.forecast.kernels import KernelKind


def built(model: str, **sizes: int) -> Graph:
    return graph_of(model, Wanted(**sizes, training=True))


def test_every_model_that_can_be_tuned_can_be_forecast() -> None:
    assert set(builtin_names()) < set(graph_names())


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("resnet18", 11_689_512),  # torchvision's documentation
        ("resnet34", 21_797_672),
        ("resnet50", 25_557_032),
        ("bert-base", 109_482_240),  # Hugging Face's BertModel
        ("bert-large", 335_141_888 + 2 * 1025),  # and a classifier of two
        ("gpt2-large", 774_030_080),
        ("gpt3-2.7b", 2_651_553_280),
        ("opt-1.3b", 1_315_758_080),
    ],
)
def test_parameters_are_as_published(model: str, parameters: int) -> None:
    assert built(model).parameters == parameters


@pytest.mark.parametrize("model", graph_names())
def test_every_graph_of_training_goes_back_through_each_product(model: str) -> None:
    for operator, _ in built(model, batch=2, sequence=64).operators():
        products = [each for each in operator.forward if each.depth > 1]
        back = [each for each in operator.backward if each.depth > 1]
        assert len(back) in (2 * len(products), 2 * len(products) - 1), operator
        if operator.parameters or operator.accumulation:
            assert operator.backward, operator


@pytest.mark.parametrize("model", graph_names())
def test_inference_grows_with_the_batch(model: str) -> None:
    def flops(batch: int) -> float:
        graph = graph_of(model, Wanted(batch=batch, sequence=64))
        return sum(
            times * kernel.flops
            for operator, times in graph.operators()
            for kernel in operator.kernels()
            if kernel.kind in (KernelKind.LINEAR, KernelKind.BATCHED_PRODUCT)
        )

    assert flops(4) == pytest.approx(4 * flops(1))


@pytest.mark.parametrize(
    ("model", "wanted", "says"),
    [
        ("gpt3-xxl", Wanted(), r"unknown model 'gpt3-xxl'; did you mean gpt3-xl"),
        ("bert-base", Wanted(batch=0), "a batch of 0 is out of range"),
        ("bert-base", Wanted(sequence=513), "a sequence of 513 tokens is out of range; .* 512"),
        ("opt-1.3b", Wanted(sequence=4096), "a sequence of 4096 tokens is out of range"),
        ("bert-base", Wanted(ways=4), "can't be divided among GPUs; tensor parallel are gpt2-l"),
        ("gpt3-xl", Wanted(ways=7), "24 heads don't divide among 7 GPUs"),
        ("model.pt2", Wanted(), "torch.export files are not supported yet"),
    ],
)
def test_what_cannot_be_had_is_said_in_one_line(model: str, wanted: Wanted, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        graph_of(model, wanted)
    assert "\n" not in str(caught.value)


def test_named_dimensions_are_for_files() -> None:
    with pytest.raises(UsageError, match="has no named dimensions, but n was given"):
        graph_of("resnet18", Wanted(), (("n", 4),))


def test_a_divided_layer_has_its_part_of_the_weights() -> None:
    whole = graph_of("gpt3-xl", Wanted(batch=4, sequence=128, training=True))
    part = graph_of("gpt3-xl", Wanted(batch=4, sequence=128, training=True, ways=4))
    assert part.parameters == pytest.approx(whole.parameters / 4, rel=0.02)
    reduced = [times * (operator.forward_reduced_bytes > 0) for operator, times in part.operators()]
    assert sum(reduced) == 2 * 24 + 1
