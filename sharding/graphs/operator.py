"""What a model is to a forecast: operators in order, each a few kernels, in blocks that repeat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tune_farm.tuner.predictor.forecast.kernels import Kernel

CONVOLUTION = "convolution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What a framework launches for one operator, forward and, in training, back."""

    name: str
    forward: tuple[Kernel, ...]
    backward: tuple[Kernel, ...] = ()
    accumulation: tuple[Kernel, ...] = ()  # gradients added to those of the parameters
    parameters: int = 0  # elements that are trained, and are its own
    label: str = ""  # of a class whose kernels no predictor learned: CONVOLUTION
    waits: int = 0  # times that the host waits for the device in the forward pass
    reads: tuple[tuple[int, int], ...] = ()  # values, with the bytes read of each
    writes: int = -1  # the value of the result
    written_bytes: int = 0
    forward_reduced_bytes: int = 0  # summed over all GPUs of a tensor-parallel group
    backward_reduced_bytes: int = 0

    def kernels(self) -> tuple[Kernel, ...]:
        """All launches of one step, in order."""
        return self.forward + self.backward + self.accumulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Operators that a model runs so many times, with other weights each time."""

    name: str
    operators: tuple[Operator, ...]
    times: int = 1
    results: tuple[int, ...] = ()  # values that other blocks read

    def __post_init__(self) -> None:
        assert self.times >= 1, self.times


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A model at one batch and sequence, for inference or for one step of training."""

    name: str
    blocks: tuple[Block, ...]
    batch: int | None  # None: its file fixes it
    sequence: int | None  # None: it has none, or its file fixes it, too
    training: bool
    boundary_bytes: int = 0  # what one block of a pipeline hands to the next

    @property
    def parameters(self) -> int:
        """Elements that are trained, those that operators share once."""
        return sum(
            block.times * operator.parameters
            for block in self.blocks
            for operator in block.operators
        )

    def operators(self) -> Iterator[tuple[Operator, int]]:
        """Each operator with its times, blocks in order."""
        for block in self.blocks:
            for operator in block.operators:
                yield operator, block.times

    def with_blocks(self, blocks: tuple[Block, ...]) -> Graph:
        """The same model, its blocks changed."""
        return replace(self, blocks=blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The sizes that a model's graph is asked for."""

    batch: int = 1
    sequence: int = 128
    training: bool = False
    ways: int = 1  # GPUs among which each layer's weights are divided
