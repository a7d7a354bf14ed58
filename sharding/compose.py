"""How the kernels of a model become its seconds.

The rules were written from how PyTorch runs a model, and from the sheets of facts, before any
whole model's measured time was scored; no number here was fitted to one.

1.  A stream runs one kernel after the other, so device times add. Between two kernels of a full
    queue the device idles for the latency of a launch, 1.5 µs. The tens of microseconds that a
    kernel takes when it is measured alone, the host waiting for it, are the host's, and a model
    does not pay them: its launches are asynchronous.
2.  The host needs about 6 µs for a kernel (Python, the dispatcher, the driver's launch). It runs
    ahead of the device, so a pass takes the longer of both, as a whole and not kernel by kernel.
    Where the host waits for a value (a mask that picks tokens, a number sent to the device), the
    queue runs empty: 20 µs for the copy, the wake-up and the next launch. Forward and backward are
    passes of their own.
3.  Views (view, permute, transpose, split, slices, expand) launch nothing. Dropout in inference is
    no operator, nor is a cast to the type that a tensor has. `contiguous` and `reshape` copy what
    is no view, else they are free: `sharding.graphs.tensor` follows strides to know.
4.  What only moves data (gathers, copies, masks, fills, concatenations) costs what it moves, at the
    bandwidth that such kernels sustain, never at the data sheet's. A broadcast operand costs its
    own bytes, a mask a byte for each element.
5.  `torch.matmul` of four axes makes three of them, and so copies heads that lie between tokens:
    both operands of the scores (keys across their lines) and the values, unless the batch is 1.
    `torch.bmm` as OPT calls it copies nothing; OPT copies heads itself.
6.  OPT bounds its scores by `torch.max` with a tensor: a kernel that reads and writes them all, and
    five to come back.
7.  Backward (PyTorch's derivatives.yaml): an addition passes its gradient on and launches nothing;
    where n operators read a value, n - 1 kernels add their gradients; softmax and activations take
    one kernel that reads two tensors and writes one; a layer norm takes that and one for weight
    and bias, which reads both again; a product takes two, and the sum of the rows for its bias;
    an embedding writes a whole table. Gradients that come back through permuted views are copied
    where the value's shape is no view of them.
8.  Gradients are added to those of the step before, once for each parameter tensor.
9.  Fused (as an option, for inference): element by element operators, softmax and norms join the
    only reader of their result. The joint kernel moves what enters and leaves, as one of its kind.
10. Several GPUs: see `sharding.parallel`.

The interval: deviations of one kernel's repeats add up; those of different kernels mostly cancel
(published predictions that miss kernels by 20 to 25% miss models by 2 to 8%: facts) and add as
squares. Those of convolutions, which may all run by another algorithm, add up. The rules above are
wrong by themselves: even measured kernels, summed, miss the measured model by 6% on average, which
as a normal deviation has nine of ten within 12%.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tune_farm.sharding.graphs.operator import Block, Graph, Operator
from tune_farm.tuner.predictor.forecast.chip import Chip
from tune_farm.tuner.predictor.forecast.kernels import Forecaster, Kernel

GAP_SECONDS = 1.5e-6
DISPATCH_SECONDS = 6e-6
WAIT_SECONDS = 20e-6
_OWN_DEVIATION = 0.12
#: A convolution may run by another algorithm: Winograd's of 2x2 tiles multiplies 2.25 times less.
_CONVOLUTION_LOW, _CONVOLUTION_HIGH = 1 / 2.25, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """Of some kernels on the device: expected, and bounds that hold nine of ten."""

    expected: float = 0.0
    low: float = 0.0
    high: float = 0.0
    roofline: float = 0.0  # at the data sheet's peaks
    kernels: int = 0
    is_extrapolated: bool = False  # some kernel is of no kind or size that was measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What a forward or backward pass costs the device and the host."""

    device_seconds: float = 0.0  # of kernels
    launches: int = 0
    waits: int = 0

    @property
    def seconds(self) -> float:
        """Device and host side by side, and what both wait for each other."""
        device = self.device_seconds + GAP_SECONDS * self.launches
        return max(device, DISPATCH_SECONDS * self.launches) + WAIT_SECONDS * self.waits

    def __add__(self, other: Pass) -> Pass:
        """One after the other."""
        return Pass(
            device_seconds=self.device_seconds + other.device_seconds,
            launches=self.launches + other.launches,
            waits=self.waits + other.waits,
        )

    def repeated(self, times: int) -> Pass:
        """As often."""
        return Pass(
            device_seconds=self.device_seconds * times,
            launches=self.launches * times,
            waits=self.waits * times,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorForecast:
    """One operator of a block, all its repeats together."""

    block: str
    name: str
    times: int
    seconds: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockForecast:
    """One run of a block."""

    block: Block
    forward: Pass
    backward: Pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelForecast:
    """A model, or a step of its training, on one GPU."""

    chip: Chip
    operators: tuple[OperatorForecast, ...]
    classes: Mapping[str, Seconds]  # by the kind of kernel
    device: Seconds  # of all kernels
    blocks: tuple[BlockForecast, ...]

    @property
    def forward(self) -> Pass:
        """All of the forward pass."""
        return total(each.forward.repeated(each.block.times) for each in self.blocks)

    @property
    def backward(self) -> Pass:
        """All of the backward pass; empty for inference."""
        return total(each.backward.repeated(each.block.times) for each in self.blocks)

    @property
    def seconds(self) -> float:
        """Of the model."""
        return self.forward.seconds + self.backward.seconds

    @property
    def launch_seconds(self) -> float:
        """What comes on top of the kernels' own times."""
        return self.seconds - self.device.expected

    @property
    def low_seconds(self) -> float:
        """Nine of ten models take at least that, and at most `high_seconds`."""
        below = math.hypot(self.device.expected - self.device.low, _OWN_DEVIATION * self.seconds)
        return max(min(self.seconds / 2, self.device.roofline), self.seconds - below)

    @property
    def high_seconds(self) -> float:
        """See `low_seconds`."""
        above = self.device.high - self.device.expected
        return self.seconds + math.hypot(above, _OWN_DEVIATION * self.seconds)


def total(passes: Iterable[Pass]) -> Pass:
    """One after the other."""
    return sum(passes, start=Pass())


def forecast(graph: Graph, chip: Chip, forecaster: Forecaster) -> ModelForecast:
    """The seconds of a model on one GPU, or on the share of one."""
    counts, known = _predicted(graph, chip, forecaster)
    operators, blocks = [], []
    of_classes: dict[str, Counter[_Launch]] = {}
    for block, of_block in zip(graph.blocks, counts, strict=True):
        forward, backward = Pass(), Pass()
        for operator, (ahead, back) in zip(block.operators, of_block, strict=True):
            together = ahead + back
            operators.append(
                OperatorForecast(
                    block=block.name,
                    name=operator.name,
                    times=block.times,
                    seconds=_joined(together, known, block.times),
                )
            )
            forward += _pass(ahead, known, operator.waits)
            backward += _pass(back, known, 0)
            for launch in together:
                of_class = of_classes.setdefault(known[launch].kind, Counter())
                of_class[launch] += block.times
        blocks.append(BlockForecast(block=block, forward=forward, backward=backward))
    everything = sum(of_classes.values(), start=Counter[_Launch]())
    return ModelForecast(
        chip=chip,
        operators=tuple(operators),
        classes={kind: _joined(counted, known) for kind, counted in of_classes.items()},
        device=_joined(everything, known),
        blocks=tuple(blocks),
    )


def roofline_seconds(kernel: Kernel, chip: Chip) -> float:
    """The longer of arithmetic and traffic, at the data sheet's peaks (Williams et al. 2009)."""
    arithmetic = kernel.flops / chip.peak_flops
    return max(arithmetic, kernel.moved_bytes / chip.dram_bytes_per_second)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cost:
    """Of one launch."""

    expected: float
    below: float  # how much less it may take
    above: float
    roofline: float
    kind: str
    is_convolution: bool
    is_outside: bool


#: A kernel's number, and whether it is a convolution's.
_Launch: TypeAlias = tuple[int, bool]
_Counts: TypeAlias = list[tuple[list[_Launch], list[_Launch]]]


def _predicted(
    graph: Graph, chip: Chip, forecaster: Forecaster
) -> tuple[list[_Counts], dict[_Launch, _Cost]]:
    """Launches of each block's operators, forward and back, and the cost of each."""
    numbers: dict[Kernel, int] = {}
    costs: dict[_Launch, str] = {}

    def numbered(operator: Operator, kernels: Iterable[Kernel]) -> list[_Launch]:
        found = []
        for kernel in kernels:
            launch = numbers.setdefault(kernel, len(numbers)), bool(operator.label)
            costs.setdefault(launch, operator.label or kernel.kind.value)
            found.append(launch)
        return found

    counts = [
        [
            (numbered(each, each.forward), numbered(each, each.backward + each.accumulation))
            for each in block.operators
        ]
        for block in graph.blocks
    ]
    kernels = list(numbers)
    told = forecaster.predict(kernels, chip)
    columns = (told.device_seconds, told.low_seconds, told.high_seconds, told.is_outside)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    known = {}
    for launch, kind in costs.items():
        number, is_convolution = launch
        expected, low, high, is_outside = rows[number]
        if is_convolution:
            low, high = _CONVOLUTION_LOW * low, _CONVOLUTION_HIGH * high
        known[launch] = _Cost(
            expected=expected,
            below=expected - low,
            above=high - expected,
            roofline=roofline_seconds(kernels[number], chip),
            kind=kind,
            is_convolution=is_convolution,
            is_outside=is_outside,
        )
    return counts, known


def _joined(launches: Iterable[_Launch], known: Mapping[_Launch, _Cost], times: int = 1) -> Seconds:
    """Of all launches together; a `Counter` has each as often as it counts."""
    counted = launches if isinstance(launches, Counter) else Counter(launches)
    expected = roofline = below = above = below_together = above_together = 0.0
    is_extrapolated = False
    for launch, count in counted.items():
        cost = known[launch]
        expected += count * cost.expected
        roofline += count * cost.roofline
        is_extrapolated |= cost.is_outside or cost.is_convolution
        if cost.is_convolution:
            below_together += count * cost.below
            above_together += count * cost.above
        else:
            below += (count * cost.below) ** 2
            above += (count * cost.above) ** 2
    return Seconds(
        expected=times * expected,
        low=times * (expected - math.sqrt(below + below_together**2)),
        high=times * (expected + math.sqrt(above + above_together**2)),
        roofline=times * roofline,
        kernels=times * counted.total(),
        is_extrapolated=is_extrapolated,
    )


def _pass(launches: Sequence[_Launch], known: Mapping[_Launch, _Cost], waits: int) -> Pass:
    return Pass(
        device_seconds=sum(known[each].expected for each in launches),
        launches=len(launches),
        waits=waits,
    )
