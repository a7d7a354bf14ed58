"""The models that a forecast knows by name, and the way from what a user gave to a graph."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from tune_farm.sharding.graphs.bert import BERT_LARGE, bert
from tune_farm.sharding.graphs.gpt2 import GPT2_LARGE, GPT3_2_7B, GPT3_XL, Gpt2Config, gpt2
from tune_farm.sharding.graphs.operator import Graph, Wanted
from tune_farm.sharding.graphs.opt import OPT_1_3B, opt
from tune_farm.sharding.graphs.resnet import RESNET34, resnet
from tune_farm.sharding.graphs.switch import SWITCH_XL_4, switch
from tune_farm.sharding.models.sizes import BERT_BASE, RESNET18, RESNET50, ResNetConfig
from tune_farm.tuner.errors import UsageError

Builder: TypeAlias = Callable[[str, Wanted], Graph]

_SIMILAR = 0.5  # difflib's ratio, as for the models that can be tuned


def _gpt2(config: Gpt2Config) -> Builder:
    return lambda name, wanted: gpt2(name, config, wanted)


def _resnet(config: ResNetConfig) -> Builder:
    return lambda name, wanted: resnet(name, config, wanted)


_BUILDERS: dict[str, Builder] = {
    "resnet18": _resnet(RESNET18),
    "resnet34": _resnet(RESNET34),
    "resnet50": _resnet(RESNET50),
    "bert-base": lambda name, wanted: bert(name, BERT_BASE, wanted, classes=0),
    "bert-large": lambda name, wanted: bert(name, BERT_LARGE, wanted, classes=2),
    "gpt2-large": _gpt2(GPT2_LARGE),
    "gpt3-xl": _gpt2(GPT3_XL),
    "gpt3-2.7b": _gpt2(GPT3_2_7B),
    "opt-1.3b": lambda name, wanted: opt(name, OPT_1_3B, wanted),
    "switch-transformer": lambda name, wanted: switch(name, SWITCH_XL_4, wanted),
}
#: Those whose layers can be divided among GPUs.
_DIVISIBLE = ("gpt2-large", "gpt3-xl", "gpt3-2.7b")


def graph_names() -> tuple[str, ...]:
    """The names that need no file."""
    return tuple(_BUILDERS)


def is_file(model: str) -> bool:
    """Whether a model is meant as the path of an ONNX file."""
    suffix = Path(model).suffix.lower()
    return suffix == ".onnx" or (model not in _BUILDERS and Path(model).is_file())


def graph_of(model: str, wanted: Wanted, shapes: tuple[tuple[str, int], ...] = ()) -> Graph:
    """The graph of a built-in model, or of an ONNX file.

    Args:
        model: a name, or the path of a file.
        wanted: its sizes; a file fixes batch and sequence itself.
        shapes: values for the named dimensions of a file's inputs.

    Raises:
        UsageError: there is no such model, or it can't be had in these sizes.
    """
    if wanted.batch < 1:
        cause = f"a batch of {wanted.batch} is out of range"
        raise UsageError(cause, "give a batch of at least 1")
    if wanted.ways > 1 and model not in _DIVISIBLE:
        cause = f"{model}: its layers can't be divided among GPUs"
        raise UsageError(cause, f"tensor parallel are {', '.join(_DIVISIBLE)}")
    if Path(model).suffix.lower() == ".pt2":
        raise UsageError(
            f"{model}: torch.export files are not supported yet",
            "export the model to ONNX (torch.onnx.export) and give the .onnx file",
        )
    if is_file(model):
        # The onnx package takes a third of a second, which names do not need.
        from tune_farm.sharding.graphs.onnx_graph import onnx_graph

        return onnx_graph(Path(model), wanted, shapes)
    if shapes:
        names = ", ".join(name for name, _ in shapes)
        raise UsageError(
            f"{model} has no named dimensions, but {names} was given",
            "built-in models are static: use the batch and sequence options instead",
        )
    if model not in _BUILDERS:
        raise _unknown(model)
    return _BUILDERS[model](model, wanted)


def _unknown(model: str) -> UsageError:
    near = difflib.get_close_matches(model.lower(), _BUILDERS, n=3, cutoff=_SIMILAR)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    remedy = f"{hint}known are {', '.join(_BUILDERS)}, or give an .onnx file"
    return UsageError(f"unknown model {model!r}", remedy)
