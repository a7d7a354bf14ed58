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

The interval of the total: a law that is wrong for one kernel of a class is wrong for its neighbors,
so deviations of a class add up, and those of classes add as squares. The rules above are wrong by
themselves: even measured kernels, summed, miss the measured model by 6% on average (facts sheet),
which as a normal deviation has nine of ten within 12%.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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

    def __add__(self, other: Seconds) -> Seconds:
        """Of both, as far as their deviations go together."""
        return Seconds(
            expected=self.expected + other.expected,
            low=self.low + other.low,
            high=self.high + other.high,
            roofline=self.roofline + other.roofline,
            kernels=self.kernels + other.kernels,
            is_extrapolated=self.is_extrapolated or other.is_extrapolated,
        )

    def repeated(self, times: int) -> Seconds:
        """Of as many runs."""
        return Seconds(
            expected=self.expected * times,
            low=self.low * times,
            high=self.high * times,
            roofline=self.roofline * times,
            kernels=self.kernels * times,
            is_extrapolated=self.is_extrapolated,
        )


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
    def device(self) -> Seconds:
        """Of all kernels."""
        return sum(self.classes.values(), start=Seconds())

    @property
    def low_seconds(self) -> float:
        """Nine of ten models take at least that, and at most `high_seconds`."""
        below = [each.expected - each.low for each in self.classes.values()]
        lowest = min(self.seconds / 2, self.device.roofline)
        return max(lowest, self.seconds - math.hypot(*below, _OWN_DEVIATION * self.seconds))

    @property
    def high_seconds(self) -> float:
        """See `low_seconds`."""
        above = [each.high - each.expected for each in self.classes.values()]
        return self.seconds + math.hypot(*above, _OWN_DEVIATION * self.seconds)


def total(passes: Iterable[Pass]) -> Pass:
    """One after the other."""
    return sum(passes, start=Pass())


def forecast(graph: Graph, chip: Chip, forecaster: Forecaster) -> ModelForecast:
    """The seconds of a model on one GPU, or on the share of one."""
    known = _predicted(graph, chip, forecaster)
    operators = []
    classes: dict[str, Seconds] = {}
    for block in graph.blocks:
        for operator in block.operators:
            own = Seconds()
            for kernel in operator.kernels():
                cost = _widened(known[kernel]) if operator.label else known[kernel]
                own += cost
                kind = operator.label or kernel.kind.value
                classes[kind] = classes.get(kind, Seconds()) + cost.repeated(block.times)
            operators.append(
                OperatorForecast(
                    block=block.name,
                    name=operator.name,
                    times=block.times,
                    seconds=own.repeated(block.times),
                )
            )
    return ModelForecast(
        chip=chip,
        operators=tuple(operators),
        classes=classes,
        blocks=tuple(_timed(block, known) for block in graph.blocks),
    )


def roofline_seconds(kernel: Kernel, chip: Chip) -> float:
    """The longer of arithmetic and traffic, at the data sheet's peaks (Williams et al. 2009)."""
    arithmetic = kernel.flops / chip.peak_flops
    return max(arithmetic, kernel.moved_bytes / chip.dram_bytes_per_second)


def _predicted(graph: Graph, chip: Chip, forecaster: Forecaster) -> dict[Kernel, Seconds]:
    """Each kernel of the graph once."""
    kernels = list(
        dict.fromkeys(kernel for operator, _ in graph.operators() for kernel in operator.kernels())
    )
    found = forecaster.predict(kernels, chip)
    return {
        kernel: Seconds(
            expected=float(found.device_seconds[index]),
            low=float(found.low_seconds[index]),
            high=float(found.high_seconds[index]),
            roofline=roofline_seconds(kernel, chip),
            kernels=1,
            is_extrapolated=bool(found.is_outside[index]),
        )
        for index, kernel in enumerate(kernels)
    }


def _widened(of_convolution: Seconds) -> Seconds:
    return Seconds(
        expected=of_convolution.expected,
        low=_CONVOLUTION_LOW * of_convolution.low,
        high=_CONVOLUTION_HIGH * of_convolution.high,
        roofline=of_convolution.roofline,
        kernels=of_convolution.kernels,
        is_extrapolated=True,
    )


def _timed(block: Block, known: Mapping[Kernel, Seconds]) -> BlockForecast:
    def summed(parts: Iterable[tuple[Sequence[Kernel], int]]) -> Pass:
        return total(
            Pass(
                device_seconds=sum(known[kernel].expected for kernel in kernels),
                launches=len(kernels),
                waits=waits,
            )
            for kernels, waits in parts
        )

    return BlockForecast(
        block=block,
        forward=summed((each.forward, each.waits) for each in block.operators),
        backward=summed((_back(each), 0) for each in block.operators),
    )


def _back(operator: Operator) -> tuple[Kernel, ...]:
    return operator.backward + operator.accumulation
