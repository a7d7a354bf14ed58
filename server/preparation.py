"""From a model's name to tasks: loaded, lowered for the share, cut into operators."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tune_farm.server.form_choice import Wanted, choose_form
from tune_farm.server.variant_choice import Found, find_variants
from tune_farm.sharding.compiler_output import compiler_output_logged
from tune_farm.sharding.extract import Extraction, extract
from tune_farm.sharding.half_precision import check_half_precision
from tune_farm.sharding.lower import LoweredModel, lower
from tune_farm.sharding.models.load import load_model
from tune_farm.sharding.models.spec import ModelSpec
from tune_farm.sharding.winograd.matrices import growth
from tune_farm.sharding.winograd.rewrite import rewrite
from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.predictor.cuda_target import cuda_target
from tune_farm.tuner.predictor.machine import Cpu, Gpu
from tune_farm.tuner.types import Device, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A model ready to be tuned."""

    lowered: LoweredModel
    baseline: LoweredModel  # the model as given: what a gain is measured against
    extraction: Extraction
    selected: tuple[Task, ...]
    target_json: str
    found: Found = Found()  # other ways to compute some of the selected
    #: How many times a direct sum's rounding errors those of the model as tuned may be.
    rounding: float = 1.0

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks to tune: the selected, and those of their other variants."""
        return (*self.selected, *self.found.tasks)

    @property
    def can_run(self) -> bool:
        """Whether the whole model can be built and timed."""
        return not self.lowered.has_symbolic_shapes

    def with_tiles(self, tiles: Mapping[str, int]) -> Prepared:
        """The same with functions replaced by Winograd operators, by the size of their tiles."""
        if not tiles:
            return self
        rounding = max(growth(tile) for tile in tiles.values())
        return replace(self, lowered=rewrite(self.lowered, tiles), rounding=rounding)

    @property
    def module_json(self) -> str:
        """The module as tuned, as TVM's JSON; the weights are its trailing parameters."""
        return _module_json(self.lowered)

    @property
    def baseline_json(self) -> str:
        """The module as given, as TVM's JSON."""
        return _module_json(self.baseline)

    @property
    def inputs(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """Shape and dtype of each true input; only for a model that can run."""
        return tuple(
            (tuple(int(extent) for extent in spec.shape), spec.dtype)
            for spec in self.lowered.inputs
        )


def prepare(
    spec: ModelSpec,
    *,
    device: Device,
    machine: Cpu | Gpu,
    target: str | None,
    wanted: Wanted,
    selection: tuple[int, ...] | None,
    with_weights: bool,
) -> Prepared:
    """Load, lower and cut a model; imports TVM (seconds).

    Args:
        spec: the model.
        device: what is tuned for.
        machine: the share of it.
        target: a TVM tag or JSON; None: this device's.
        wanted: the form that is tuned.
        selection: indices of tasks; None: all.
        with_weights: whether their values are needed, or their shapes are enough.

    Raises:
        UsageError: the model, the target or the selection can't be used.
    """
    compiled_for = make_target(target, device, machine)
    if wanted.dtype is not None:
        check_half_precision(wanted.dtype, compiled_for)
    loaded = load_model(spec, with_weights=with_weights)
    # A target that was asked for may be another than the machine that laws know.
    is_cpu = compiled_for.kind.name == "llvm"
    cpu = machine if isinstance(machine, Cpu) and is_cpu else None
    with compiler_output_logged():
        baseline = lower(loaded, compiled_for)
        lowered = choose_form(loaded, baseline, compiled_for, wanted=wanted, cpu=cpu)
        extraction = extract(lowered, compiled_for)
        selected = _select(extraction, selection)
        found = Found()
        # What the whole model's output can't be compared for is left as it rounds.
        wants = wanted.winograd and wanted.fast_math and not lowered.has_symbolic_shapes
        if wants and cpu is not None:  # no law says yet where it pays on a GPU
            found = find_variants(lowered, selected, compiled_for, cpu=cpu)
    return Prepared(
        lowered=lowered,
        baseline=baseline,
        extraction=extraction,
        selected=selected,
        target_json=str(compiled_for),
        found=found,
    )


def _module_json(lowered: LoweredModel) -> str:
    import tvm

    return str(tvm.ir.save_json(lowered.module))


def make_target(asked: str | None, device: Device, machine: Cpu | Gpu) -> Any:
    """The TVM target of a share: as asked, or this device with what was granted.

    Raises:
        UsageError: TVM does not know the target asked for.
    """
    import tvm

    if asked is None:
        architecture = device.device_class.architecture
        if isinstance(machine, Gpu):
            return tvm.target.Target(cuda_target(machine, architecture))
        return tvm.target.Target({"kind": "llvm", "mcpu": architecture, "num-cores": machine.cores})
    try:
        return tvm.target.Target(json.loads(asked) if asked.startswith("{") else asked)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else "unknown"
        raise UsageError(
            f"target {asked!r} is not one that TVM knows: {reason}",
            'give a tag or JSON such as {"kind": "llvm", "mcpu": "znver3"}',
        ) from None


def _select(extraction: Extraction, selection: tuple[int, ...] | None) -> tuple[Task, ...]:
    tasks = extraction.tasks
    if not tasks:
        raise _nothing_to_tune(extraction)
    if selection is None:
        return tasks
    beyond = [index for index in selection if index >= len(tasks)]
    if beyond:
        raise UsageError(
            f"there is no task {beyond[0]}: the model has tasks 0 to {len(tasks) - 1}",
            "see 'tune-farm tasks MODEL'",
        )
    return tuple(tasks[index] for index in selection)


def _nothing_to_tune(extraction: Extraction) -> UsageError:
    if extraction.skipped:
        first = extraction.skipped[0]
        return UsageError(f"no operator can be tuned: {first.name}: {first.reason}", first.remedy)
    if extraction.untunable:
        only = extraction.untunable[0]
        return UsageError(f"no operator can be tuned: {only.name}: {only.reason}")
    return UsageError("the model has no operator", "give one that computes something")
