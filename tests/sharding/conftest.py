"""Small models and the target that the sharding tests share."""

from __future__ import annotations

import pytest
import tvm

from tune_farm.sharding.lower import LoweredModel, lower
from tune_farm.sharding.models.bert import write_bert
from tune_farm.sharding.models.graph_writer import GraphWriter
from tune_farm.sharding.models.load import load_model
from tune_farm.sharding.models.resnet import write_resnet
from tune_farm.sharding.models.sizes import BertConfig, ResNetConfig
from tune_farm.sharding.models.spec import LoadedModel, ModelSpec

TINY_BERT = BertConfig(layers=2, hidden=32, heads=4, intermediate=64, vocabulary=100, positions=32)
TINY_RESNET = ResNetConfig(depths=(1, 1, 1, 2), bottleneck=True, width=8, image_size=32, classes=10)


def _loaded(name: str, writer: GraphWriter) -> LoadedModel:
    return LoadedModel(
        name=name,
        spec=ModelSpec(model=name),
        proto=writer.model(name),
        weight_inputs=writer.weight_inputs,
        parameter_count=writer.parameter_count,
        symbolic_dims=(),
    )


def tiny_bert(*, with_weights: bool) -> LoadedModel:
    writer = GraphWriter(with_weights=with_weights)
    write_bert(writer, TINY_BERT, batch=2, sequence=16)
    return _loaded("tiny-bert", writer)


def tiny_resnet(*, with_weights: bool) -> LoadedModel:
    writer = GraphWriter(with_weights=with_weights)
    write_resnet(writer, TINY_RESNET, batch=1)
    return _loaded("tiny-resnet", writer)


@pytest.fixture(scope="session")
def target() -> tvm.target.Target:
    return tvm.target.Target({"kind": "llvm", "num-cores": 2})


@pytest.fixture(scope="session")
def tiny_models() -> dict[tuple[str, bool], LoadedModel]:
    """By name and whether with weights."""
    builders = {"bert": tiny_bert, "resnet": tiny_resnet}
    return {
        (name, with_weights): build(with_weights=with_weights)
        for name, build in builders.items()
        for with_weights in (True, False)
    }


@pytest.fixture(scope="session")
def resnet18(target: tvm.target.Target) -> LoweredModel:
    return lower(load_model(ModelSpec(model="resnet18"), with_weights=False), target)
