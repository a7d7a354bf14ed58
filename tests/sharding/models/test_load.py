from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

from tune_farm.sharding.models.load import load_model
from tune_farm.sharding.models.registry import builtin_names
from tune_farm.sharding.models.spec import ModelSpec
from tune_farm.tuner.errors import UsageError


@pytest.mark.parametrize(
    ("model", "published"),
    [("resnet18", 11_689_512), ("resnet50", 25_557_032), ("bert-base", 109_482_240)],
)
def test_parameter_counts_are_the_published_ones(model: str, published: int) -> None:
    loaded = load_model(ModelSpec(model=model), with_weights=False)
    assert loaded.parameter_count == published
    assert not loaded.has_weights
    onnx.checker.check_model(loaded.proto)


def test_sequence_does_not_change_the_parameter_count() -> None:
    loaded = load_model(ModelSpec(model="bert-base", sequence=64), with_weights=False)
    assert loaded.parameter_count == 109_482_240


def test_all_builtins_are_listed() -> None:
    assert builtin_names() == ("resnet18", "resnet50", "bert-base")


def test_weights_are_the_same_each_time() -> None:
    first, second = (load_model(ModelSpec(model="resnet18"), with_weights=True) for _ in "12")
    assert first.proto == second.proto
    assert first.has_weights


def activations_of(model: str) -> npt.NDArray[np.float32]:
    loaded = load_model(ModelSpec(model=model), with_weights=True)
    session = onnxruntime.InferenceSession(
        loaded.proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    image = np.random.default_rng(0).standard_normal((1, 3, 224, 224), dtype=np.float32)
    (logits,) = session.run(None, {"input": image})
    return np.asarray(logits, dtype=np.float32)


@pytest.mark.parametrize("model", ["resnet18", pytest.param("resnet50", marks=pytest.mark.slow)])
def test_outputs_are_of_order_one(model: str) -> None:
    logits = activations_of(model)
    assert np.isfinite(logits).all()
    assert 0.05 < logits.std() < 20


def test_near_names_are_offered() -> None:
    with pytest.raises(UsageError) as caught:
        load_model(ModelSpec(model="resnet5"), with_weights=False)
    assert caught.value.cause == "unknown model 'resnet5'"
    assert caught.value.remedy == (
        "did you mean resnet50, resnet18? built-in: resnet18, resnet50, bert-base, "
        "or give an .onnx file"
    )


def test_far_names_are_not() -> None:
    with pytest.raises(UsageError) as caught:
        load_model(ModelSpec(model="zzz"), with_weights=False)
    assert "did you mean" not in caught.value.remedy


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ModelSpec(model="model.pt2"), "not supported yet"),
        (ModelSpec(model="resnet18", batch=0), "a batch of 0"),
        (ModelSpec(model="resnet18", shapes=(("n", 4),)), "no named dimensions"),
        (ModelSpec(model="bert-base", sequence=513), "sequence of 513"),
        (ModelSpec(model="bert-base", sequence=0), "sequence of 0"),
    ],
)
def test_unusable_specs(spec: ModelSpec, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_model(spec, with_weights=False)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
