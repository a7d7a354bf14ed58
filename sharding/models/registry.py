"""Names of the built-in models."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TypeAlias

from tune_farm.sharding.models.bert import write_bert
from tune_farm.sharding.models.graph_writer import GraphWriter
from tune_farm.sharding.models.resnet import write_resnet
from tune_farm.sharding.models.sizes import (
    BERT_BASE,
    RESNET18,
    RESNET50,
    BertConfig,
    ResNetConfig,
)
from tune_farm.sharding.models.spec import ModelSpec
from tune_farm.tuner.errors import UsageError

Builder: TypeAlias = Callable[[GraphWriter, ModelSpec], None]


def _resnet(config: ResNetConfig) -> Builder:
    def build(writer: GraphWriter, spec: ModelSpec) -> None:
        write_resnet(writer, config, batch=spec.batch)

    return build


def _bert(config: BertConfig) -> Builder:
    def build(writer: GraphWriter, spec: ModelSpec) -> None:
        if not 1 <= spec.sequence <= config.positions:
            raise UsageError(
                f"{spec.model}: a sequence of {spec.sequence} tokens is out of range",
                f"give one from 1 to {config.positions}",
            )
        write_bert(writer, config, batch=spec.batch, sequence=spec.sequence)

    return build


_BUILDERS: dict[str, Builder] = {
    "resnet18": _resnet(RESNET18),
    "resnet50": _resnet(RESNET50),
    "bert-base": _bert(BERT_BASE),
}

_SIMILAR = 0.5  # difflib's ratio: one wrong or missing letter in a short name passes


def builtin_names() -> tuple[str, ...]:
    """The names that need no file."""
    return tuple(_BUILDERS)


def builder_of(name: str) -> Builder:
    """The builder of a built-in model.

    Raises:
        UsageError: the name is unknown; near matches are in the remedy.
    """
    if name in _BUILDERS:
        return _BUILDERS[name]
    near = difflib.get_close_matches(name.lower(), _BUILDERS, n=3, cutoff=_SIMILAR)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    known = ", ".join(_BUILDERS)
    raise UsageError(f"unknown model {name!r}", f"{hint}built-in: {known}, or give an .onnx file")
