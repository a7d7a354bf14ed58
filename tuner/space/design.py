"""A task's design space: its sketches as arrays, and the way between a draft and a schedule."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from tune_farm.tuner.space.anatomy import blocks_of
from tune_farm.tuner.space.decisions import AT_ROOT, INLINED
from tune_farm.tuner.space.intrinsics import load_intrinsics
from tune_farm.tuner.space.kernel_replay import kernels_of
from tune_farm.tuner.space.kernels import Kernel
from tune_farm.tuner.space.nest import Nest, nest_of
from tune_farm.tuner.space.sketch import Genes, Sketch
from tune_farm.tuner.space.tensor_cores import (
    Group,
    groups_for,
    tensor_core_rules,
    uses_tensor_cores,
    with_padded_rows,
)
from tune_farm.tuner.space.tensor_kernel import TensorKernel, tensor_kernel_of
from tune_farm.tuner.space.traces import replay, trace_to_json, with_dynamic_shared_memory
from tune_farm.tuner.types import Candidate, Task

#: Where no law says better: deeper than any loop of a consumer that a block may be computed at.
_MOST_LOOPS = 32
#: CUDA's limit for arrays of a size that is part of the code, on every device so far. Beyond it,
#: shared memory is asked for at the launch, which TVM does for buffers in "shared.dyn": its runtime
#: raises the kernel's limit (cuFuncSetAttribute) from 48 KiB on, up to what the device opts in to.
MOST_STATIC_SHARED_BYTES = 48 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One sketch and what the laws know of its loops."""

    sketch: Sketch
    # None: no law covers it; its drafts are judged by what was measured.
    nest: Nest | None = None  # on a CPU
    kernels: tuple[Kernel, ...] | None = None  # on a GPU, in the order of their launch
    tensor: TensorKernel | None = None  # on its tensor cores


class DesignSpace:
    """All drafts of one task. Holds TVM objects: never sent, never stored."""

    def __init__(self, task: Task, *, seed: int) -> None:
        import tvm

        self._task = task
        self._module = tvm.ir.load_json(task.module_json)
        target = tvm.target.Target(task.target_json)
        load_intrinsics(target)
        context, schedules = _generate(self._module, target, _generator(target), task.name, seed)
        plots = [_plot(self._module, target, schedule) for schedule in schedules]
        self._contexts = [context] * len(plots)  # of each plot
        for group in groups_for(self._module, target):
            rules = _tensor_core_generator(group)
            context, schedules = _generate(self._module, target, rules, task.name, seed)
            found = [_tensor_plot(self._module, schedule) for schedule in schedules]
            plots += (more := [plot for plot in found if plot is not None])
            self._contexts += [context] * len(more)
        self.plots = tuple(plots)

    @property
    def size(self) -> int:
        """How many drafts there are; different ones may be the same schedule."""
        return sum(plot.sketch.size for plot in self.plots)

    def realize(self, plot: int, genes: Genes) -> Candidate | None:
        """Turn one draft, (decisions,) int64, into a schedule; None if TVM refuses it."""
        trace_json = self.plots[plot].sketch.trace_json(genes)
        try:
            schedule = replay(self._module, trace_json)
            schedule.enter_postproc()
            accepted = all(each.apply(schedule) for each in self._checks(plot))
        except RuntimeError:  # the root of TVM's own errors
            return None
        if not accepted:
            return None
        return Candidate(task_id=self._task.id, trace_json=trace_to_json(schedule.trace))

    def _checks(self, plot: int) -> list[Any]:
        """TVM's postprocessors of one sketch."""
        return list(self._contexts[plot].space_generator.postprocs)

    def locate(self, candidate: Candidate) -> tuple[int, Genes] | None:
        """The draft that a schedule came from; None if it is none of this space."""
        instructions, decided = json.loads(candidate.trace_json)
        names = [instruction[0] for instruction in instructions]
        end = names.index("EnterPostproc") if "EnterPostproc" in names else len(names)
        values = {int(place): value for place, value in decided if place < end}
        for index, plot in enumerate(self.plots):
            if list(plot.sketch.instructions) == instructions[:end]:
                genes = plot.sketch.encode(values)
                return None if genes is None else (index, genes)
        return None


def _generate(
    module: Any, target: Any, generator: Any, name: str, seed: int
) -> tuple[Any, list[Any]]:
    """The context of some rules, which owns their postprocessors, and a schedule of each sketch."""
    from tvm.s_tir.meta_schedule import TuneContext

    context = TuneContext(
        module,
        target=target,
        space_generator=generator,
        search_strategy="replay-trace",
        task_name=name,
        rand_state=seed % (2**31 - 2) + 1,
        num_threads=1,
    )
    schedules = list(context.generate_design_space())
    for each in context.space_generator.postprocs:
        each._initialize_with_tune_context(context)
    return context, schedules


def _generator(target: Any) -> Any:
    """TVM's rules for a target."""
    from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

    if str(target.kind.name) != "cuda":
        return PostOrderApply()
    # By itself TVM takes the rules for tensor cores instead of these, all kinds of them.
    return PostOrderApply(sch_rules="cuda", postprocs="cuda", mutator_probs="cuda")


def _tensor_core_generator(group: Group) -> Any:
    from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

    kind = "cuda-tensorcore"
    rules = tensor_core_rules(group)
    return PostOrderApply(sch_rules=rules, postprocs=kind, mutator_probs=kind)


def _plot(module: Any, target: Any, schedule: Any) -> Plot:
    # Simplified, as the trace of a finished schedule is: the two can be compared.
    trace_json = trace_to_json(schedule.trace.simplified(True))
    if str(target.kind.name) == "cuda":
        return _gpu_plot(module, target, trace_json)
    sketch = Sketch.parse(trace_json, (INLINED, AT_ROOT, *range(_MOST_LOOPS)))
    nest = nest_of(sketch, blocks_of(schedule.mod))
    if nest is None:
        return Plot(sketch=sketch)
    # TVM moves a location that is too deep to the deepest legal one: one gene value for each.
    sketch = Sketch.parse(trace_json, (INLINED, AT_ROOT, *range(nest.reduction_depth)))
    return Plot(sketch=sketch, nest=replace(nest, sketch=sketch))


def _tensor_plot(module: Any, schedule: Any) -> Plot | None:
    """A sketch for tensor cores; None where the rule left the product alone."""
    trace_json = trace_to_json(schedule.trace.simplified(True))
    if not uses_tensor_cores(trace_json):
        return None
    trace_json = with_padded_rows(trace_json)
    sketch = Sketch.parse(trace_json, (INLINED, AT_ROOT, *range(_MOST_LOOPS)))
    blocks = blocks_of(replay(module, trace_json).mod)
    return Plot(sketch=sketch, tensor=tensor_kernel_of(sketch, blocks))


def _gpu_plot(module: Any, target: Any, trace_json: str) -> Plot:
    if int(target.attrs["max_shared_memory_per_block"]) > MOST_STATIC_SHARED_BYTES:
        trace_json = with_dynamic_shared_memory(trace_json)
    sketch = Sketch.parse(trace_json, (INLINED, AT_ROOT, *range(_MOST_LOOPS)))
    blocks = blocks_of(replay(module, trace_json).mod)
    return Plot(sketch=sketch, kernels=kernels_of(sketch, blocks))
