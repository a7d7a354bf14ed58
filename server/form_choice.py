"""Chooses the form in which a model is tuned: layout of its tensors, mathematics of functions."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tune_farm.sharding.extract import extract
from tune_farm.sharding.layout import Layout
from tune_farm.sharding.lower import LoweredModel, lower
from tune_farm.sharding.models.spec import LoadedModel
from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.predictor.machine import Cpu
from tune_farm.tuner.predictor.tile import TilePredictor
from tune_farm.tuner.space.design import DesignSpace
from tune_farm.tuner.types import Task

_LOG = logging.getLogger(__name__)

#: Drafts of each sketch: the best of so few is within some percent of the best of all.
_DRAFTS = 256
_SEED = 0
#: The part of the work that is looked at: the costliest tasks, until they make it up.
_MOST_WORK = 0.8
#: Within it predictions say nothing, and panels win: they spare misses of the page tables' cache,
#: which the law does not know. BERT's products were 7% to 19% faster from panels.
_TIE = 1.15
#: ONNX operators that fast mathematics changes.
_FUNCTIONS = frozenset({"Erf", "Exp", "Gelu", "Softmax", "Tanh"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The form that a user wants."""

    layout: Layout | None  # None: what is predicted to run faster
    fast_math: bool
    winograd: bool = False  # 3x3 convolutions may be computed by it; only with fast mathematics
    dtype: str | None = None  # of 16 bits, of products' operands; None: as the model has them


def choose_form(
    loaded: LoadedModel, given: LoweredModel, target: Any, *, wanted: Wanted, cpu: Cpu | None
) -> LoweredModel:
    """Lower a model in the form that is to be tuned.

    Args:
        loaded: the model.
        given: the model as given, lowered exactly.
        target: the TVM target of the share.
        wanted: the form.
        cpu: the share's cores; None if they are not what is tuned for.

    Raises:
        UsageError: the layout that was asked for is not possible.
    """
    fast_math = wanted.fast_math and _uses_functions(loaded)
    dtype = wanted.dtype
    is_given = not fast_math and dtype is None
    plain = given if is_given else lower(loaded, target, fast_math=fast_math, dtype=dtype)
    # No law says yet when packing pays on a GPU.
    is_open = wanted.layout is None and cpu is not None
    if wanted.layout is not Layout.PACKED and not is_open:
        return plain
    try:
        packed = lower(loaded, target, Layout.PACKED, fast_math=fast_math, dtype=dtype)
    except UsageError:
        if wanted.layout is Layout.PACKED:
            raise
        _LOG.debug("%s stays as given: it can't be packed", loaded.name, exc_info=True)
        return plain
    if wanted.layout is Layout.PACKED or cpu is None:
        return packed
    before, after = (extract(each, target).tasks for each in (plain, packed))
    return packed if is_faster(after, before, cpu, tie=_TIE) else plain


def is_faster(tasks: Iterable[Task], others: Iterable[Task], cpu: Cpu, *, tie: float = 1.0) -> bool:
    """Predict which of two forms of a model runs faster on a share, before anything is measured.

    Conversions between layouts are tasks like others, and so are charged. What both forms have in
    common is not looked at.

    Args:
        tasks: of the one form.
        others: of the other.
        cpu: the share.
        tie: the first form may take so many times as long, and is called the faster one still.
    """
    first = {task.id: task for task in tasks}
    second = {task.id: task for task in others}
    own, other = _total(first, second, cpu), _total(second, first, cpu)
    _LOG.debug("predicted %.3g s against %.3g s", own, other)
    return own < tie * other


def _uses_functions(loaded: LoadedModel) -> bool:
    return any(node.op_type in _FUNCTIONS for node in loaded.proto.graph.node)


def _total(tasks: dict[str, Task], others: dict[str, Task], cpu: Cpu) -> float:
    """Seconds of the tasks that one form alone has."""
    own = [task for key, task in tasks.items() if key not in others]
    own.sort(key=lambda task: -task.weight * task.flops)
    predictor = TilePredictor(cpu, threads=1)
    work = sum(task.weight * task.flops for task in own)
    total = looked_at = 0.0
    for task in own:
        if looked_at >= _MOST_WORK * work:
            break
        total += task.weight * best_seconds(task, cpu, predictor)
        looked_at += task.weight * task.flops
    return total / (looked_at / work) if looked_at else 0.0


def best_seconds(task: Task, cpu: Cpu, predictor: TilePredictor) -> float:
    """The fastest of a few drafts; where no law covers them, as fast as memory is."""
    rng = np.random.default_rng(_SEED)
    found = []
    if task.reduction_length > 1:
        for plot in DesignSpace(task, seed=_SEED).plots:
            genes = plot.sketch.draw(_DRAFTS, rng)
            predicted = predictor.predict(task.id, plot, genes[predictor.fits(plot, genes)])
            if predicted is not None and len(predicted.seconds):
                found.append(float(predicted.seconds.min()))
    memory = cpu.refill_bytes_per_cycle[-1] * cpu.clock_hertz
    return min(found, default=task.bytes_moved / memory)
