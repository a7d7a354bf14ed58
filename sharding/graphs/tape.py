"""Writes down the kernels of a model while its operators are called on shapes.

Backward follows PyTorch's autograd (2.1, derivatives.yaml): an operator has a backward pass where
something it reads, or a parameter of its own, needs a gradient; views launch nothing; a value that
n operators read gets n gradients, which n - 1 kernels add up; a parameter's gradient is added to
the one that it had, as in every step but the first after gradients were set to None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tune_farm.sharding.graphs import launches
from tune_farm.sharding.graphs.operator import Block, Operator
from tune_farm.sharding.graphs.tensor import Tensor, contiguous_strides
from tune_farm.tuner.predictor.forecast.kernels import Kernel


class Tape:
    """The operators of one block, in the order in which they are called."""

    def __init__(self, *, training: bool) -> None:
        self.training = training
        self._operators: list[Operator] = []
        self._elements: list[int] = []  # by value
        self._readers: Counter[int] = Counter()  # that hand back a gradient, by value
        self._shared: set[int] = set()  # values that other blocks read, too

    def input(
        self, *shape: int, needs_gradient: bool = True, shared: bool = False, item_bytes: int = 4
    ) -> Tensor:
        """Something that other blocks made.

        Args:
            shape: contiguous.
            needs_gradient: whether, in training, its maker wants one.
            shared: whether other blocks read it, too, so that each gradient is added to theirs.
            item_bytes: of one element.
        """
        value = self._new_value(shape)
        if shared:
            self._shared.add(value)
        return _dense(value, shape, item_bytes, needs_gradient and self.training)

    def record(
        self,
        name: str,
        shape: Sequence[int],
        *,
        forward: Sequence[Kernel],
        reads: Sequence[Tensor] = (),
        backward: Sequence[Kernel] = (),
        parameters: Sequence[int] = (),
        label: str = "",
        waits: int = 0,
        item_bytes: int = 4,
        differentiable: bool = True,
        tied: bool = False,
    ) -> Tensor:
        """Note one operator; its result, contiguous.

        Args:
            name: of the operator in its block.
            shape: of the result.
            forward: its kernels.
            reads: its operands.
            backward: its kernels if it has a backward pass, without those that copy gradients.
            parameters: elements of each tensor that it owns.
            label: see `Operator`.
            waits: see `Operator`.
            item_bytes: of one element of the result.
            differentiable: False for comparisons and indices.
            tied: whether another operator owns the parameters, whose gradients they share.
        """
        given = [each for each in reads if each.needs_gradient] if differentiable else []
        back: tuple[Kernel, ...] = ()
        needs_gradient = self.training and (bool(given) or bool(parameters)) and differentiable
        if needs_gradient:
            self._readers.update(each.value for each in given)
            copies = [_copied_gradient(each) for each in given if each.gradient_is_copied]
            back = (*backward, *copies)
        value = self._new_value(shape)
        result = _dense(value, shape, item_bytes, needs_gradient)
        self._operators.append(
            Operator(
                name=name,
                forward=tuple(forward),
                backward=back,
                accumulation=tuple(launches.added(size) for size in parameters)
                if needs_gradient
                else (),
                parameters=0 if tied else sum(parameters),
                label=label,
                waits=waits,
                reads=tuple((each.value, each.bytes) for each in reads),
                writes=value,
                written_bytes=result.bytes,
            )
        )
        return result

    def split(self, name: str, x: Tensor, count: int) -> list[Tensor]:
        """Equal parts of the last axis: views; back, one kernel puts their gradients together."""
        shape = (*x.shape[:-1], x.columns // count)
        gathered = launches.copy(x.rows, x.columns)
        first = self.record(name, shape, reads=[x], forward=(), backward=[gathered])
        part = replace(first, strides=x.strides)
        return [part, *(replace(part, value=self._new_value(shape)) for _ in range(count - 1))]

    def reduced(self, name: str, x: Tensor, *, forward: bool) -> Tensor:
        """Note a sum over the GPUs of a tensor-parallel group: of x, or of its gradient."""
        backward = 0 if forward or not self.training else x.bytes
        self._operators.append(
            Operator(
                name=name,
                forward=(),
                forward_reduced_bytes=x.bytes if forward else 0,
                backward_reduced_bytes=backward,
            )
        )
        return x

    def block(self, name: str, *results: Tensor, times: int = 1) -> Block:
        """All that was noted; `results` are what other blocks read."""
        sums = tuple(self._sums())
        operators = [*self._operators]
        if sums:
            operators.append(Operator(name="sums of gradients", forward=(), backward=sums))
        return Block(
            name=name,
            operators=tuple(operators),
            times=times,
            results=tuple(each.value for each in results),
        )

    def _sums(self) -> list[Kernel]:
        found = []
        for value, readers in sorted(self._readers.items()):
            count = readers if value in self._shared else readers - 1
            found += [launches.added(self._elements[value])] * count
        return found

    def _new_value(self, shape: Sequence[int]) -> int:
        size = 1
        for each in shape:
            size *= each
        self._elements.append(size)
        return len(self._elements) - 1


def _dense(value: int, shape: Sequence[int], item_bytes: int, needs_gradient: bool) -> Tensor:
    return Tensor(
        value=value,
        shape=tuple(shape),
        strides=contiguous_strides(shape),
        base=tuple(shape),
        needs_gradient=needs_gradient,
        item_bytes=item_bytes,
    )


def _copied_gradient(of: Tensor) -> Kernel:
    return launches.copy(of.rows, of.columns, transposed=of.gradient_is_transposed)
