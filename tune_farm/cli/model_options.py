"""Options that say which model, shared by every command that takes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tune_farm.cli.options import Count, ShapeBinding

_Command = TypeVar("_Command", bound=Callable[..., Any])


def model_options(command: _Command) -> _Command:
    """Add MODEL, `--batch`, `--seq`, `--shape`, `--dtype`, `--layout` and `--fast-math`."""
    command = click.option(
        "--fast-math/--no-fast-math",
        default=True,
        show_default=True,
        help="exp, erf, tanh and softmax as polynomials, off by some units in the last place.",
    )(command)
    command = click.option(
        "--layout",
        type=click.Choice(["auto", "given", "packed"]),
        default="auto",
        show_default=True,
        help="Of tensors: as given, or channels last with weights in panels; auto: by prediction.",
    )(command)
    command = click.option(
        "--dtype",
        type=click.Choice(["auto", "float16", "bfloat16"]),
        default="auto",
        show_default=True,
        help="Of products' operands, on a GPU; auto: as the model has them.",
    )(command)
    command = click.option(
        "--shape",
        type=ShapeBinding(),
        multiple=True,
        metavar="NAME=SIZE",
        help="Size of a named dimension of an ONNX file's inputs; may be repeated.",
    )(command)
    command = click.option(
        "--seq",
        type=Count(),
        default=128,
        show_default=True,
        help="Tokens of one sample, for built-in models that have a sequence.",
    )(command)
    command = click.option(
        "--batch",
        type=Count(),
        default=1,
        show_default=True,
        help="Samples in one inference, for built-in models.",
    )(command)
    return click.argument("model")(command)
