"""Joins operators into the kernels of a fusing compiler: what one reader reads is never written.

Element by element operators, softmax and layer norm join the only reader of their result, at most
one that reduces rows in a kernel. As all but the last result of such a group have that one reader,
nothing can lead out of a group and back into it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from tune_farm.sharding.graphs.operator import Block, Graph, Operator
from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.predictor.forecast.kernels import KernelKind

_BY_ROWS = (KernelKind.SOFTMAX, KernelKind.LAYER_NORM)


def fused(graph: Graph) -> Graph:
    """The same model, its operators joined.

    Raises:
        UsageError: it is to be trained.
    """
    if graph.training:
        raise UsageError("fusion is forecast for inference only", "leave out --fuse")
    return graph.with_blocks(tuple(_fused_block(block) for block in graph.blocks))


def _fused_block(block: Block) -> Block:
    groups = _groups(block)
    last = {max(members): members for members in groups}
    operators = [
        _joined([block.operators[each] for each in last[index]])
        for index in range(len(block.operators))
        if index in last
    ]
    return replace(block, operators=tuple(operators))


def _groups(block: Block) -> list[list[int]]:
    """Numbers of operators that become one kernel, in order; each operator is in one group."""
    readers: dict[int, list[int]] = defaultdict(list)
    makers = {each.writes: index for index, each in enumerate(block.operators)}
    for index, operator in enumerate(block.operators):
        for value, _ in operator.reads:
            readers[value].append(index)
    group_of = {index: [index] for index in range(len(block.operators))}
    for index, operator in enumerate(block.operators):
        for value, _ in operator.reads:
            maker = makers.get(value)
            if maker is None or readers[value] != [index] or value in block.results:
                continue
            both = sorted(group_of[maker] + group_of[index])
            if _may_join([block.operators[each] for each in both]):
                group_of.update(dict.fromkeys(both, both))
    return [group for index, group in group_of.items() if group[0] == index]


def _may_join(operators: Sequence[Operator]) -> bool:
    if any(len(each.forward) != 1 or each.label for each in operators):
        return False
    kinds = [each.forward[0].kind for each in operators]
    by_rows = [kind for kind in kinds if kind in _BY_ROWS]
    return len(by_rows) <= 1 and all(
        kind is KernelKind.ELEMENTWISE or kind in _BY_ROWS for kind in kinds
    )


def _joined(members: Sequence[Operator]) -> Operator:
    """One kernel that moves what enters and leaves the group."""
    if len(members) == 1:
        return members[0]
    inside = {each.writes: each.written_bytes for each in members[:-1]}
    moved = sum(each.forward[0].moved_bytes for each in members) - sum(inside.values())
    entered: dict[int, int] = {}
    for member in members:
        for value, size in member.reads:
            if value in inside or value in entered:
                moved -= size  # it is in registers
            else:
                entered[value] = size
    by_rows = [each for each in members if each.forward[0].kind in _BY_ROWS]
    main = (by_rows or [members[-1]])[0].forward[0]
    return replace(
        members[-1],
        name=" + ".join(each.name for each in members),
        forward=(replace(main, moved_bytes=moved, operation="fused"),),
        reads=tuple(entered.items()),
        parameters=sum(each.parameters for each in members),
    )
