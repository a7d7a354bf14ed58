"""What is tuned of a model; one without a task says why, and what would help."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.tiny_model import write_convolution
from tests.tuner.records_of import DEVICE
from tune_farm.client.devices.cpu_core import cpu_core
from tune_farm.server.form_choice import Wanted
from tune_farm.server.preparation import Prepared, _select, prepare
from tune_farm.sharding.extract import Extraction, Skipped, Untunable
from tune_farm.sharding.layout import Layout
from tune_farm.sharding.models.spec import ModelSpec
from tune_farm.sharding.winograd.matrices import growth
from tune_farm.tuner.errors import UsageError

SKIPPED = Skipped(name="dense", weight=1, reason="its size depends on N", remedy="--shape N=…")
UNTUNABLE = Untunable(name="sort", kind="runtime", weight=1, reason="a library does it")


@pytest.mark.parametrize(
    ("extraction", "says"),
    [
        (
            Extraction(tasks=(), untunable=(UNTUNABLE,), skipped=(SKIPPED,)),
            "no operator can be tuned: dense: its size depends on N; --shape N=…",
        ),
        (
            Extraction(tasks=(), untunable=(UNTUNABLE,), skipped=()),
            "no operator can be tuned: sort: a library does it",
        ),
        (
            Extraction(tasks=(), untunable=(), skipped=()),
            "the model has no operator; give one that computes something",
        ),
    ],
)
def test_nothing_to_tune(extraction: Extraction, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        _select(extraction, None)

    assert str(refused.value) == says


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_convolution(tmp_path_factory.mktemp("model") / "convolution.onnx")


def prepared(model: Path, *, fast_math: bool = True, winograd: bool = True) -> Prepared:
    wanted = Wanted(layout=Layout.PACKED, fast_math=fast_math, winograd=winograd)
    return prepare(
        ModelSpec(model=str(model)),
        device=DEVICE,
        machine=cpu_core(1),
        target='{"kind": "llvm", "num-cores": 1}',
        wanted=wanted,
        selection=None,
        with_weights=False,
    )


def test_variants_are_tuned_beside_what_is_selected(model: Path) -> None:
    ready = prepared(model)
    (alternatives,) = ready.found.alternatives

    assert set(alternatives.variants[0].tasks) <= {task.id for task in ready.selected}
    ids = [task.id for task in ready.tasks]
    assert len(set(ids)) == len(ids) > len(ready.selected)
    chosen = ready.with_tiles(dict.fromkeys(alternatives.functions, 4))
    assert "winograd_matmul" in chosen.module_json
    assert chosen.rounding == growth(4)
    assert ready.with_tiles({}) is ready
    assert "winograd" not in ready.module_json


def test_who_wants_no_rounding_gets_no_winograd(model: Path) -> None:
    assert prepared(model, winograd=False).found.tasks == ()
    assert prepared(model, fast_math=False).found.tasks == ()
