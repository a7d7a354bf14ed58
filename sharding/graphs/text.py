"""What the graphs of all models of text have in common."""

from __future__ import annotations

from tune_farm.sharding.graphs.launches import FLOAT_BYTES
from tune_farm.sharding.graphs.operator import Block, Graph, Wanted
from tune_farm.tuner.errors import UsageError


def check_length(name: str, wanted: Wanted, positions: int) -> None:
    """Refuse a sequence that a model has no positions for.

    Raises:
        UsageError: it is longer.
    """
    if not 1 <= wanted.sequence <= positions:
        cause = f"{name}: a sequence of {wanted.sequence} tokens is out of range"
        raise UsageError(cause, f"give one from 1 to {positions}")


def text_graph(name: str, wanted: Wanted, blocks: tuple[Block, ...], hidden: int) -> Graph:
    """Blocks that hand the hidden state of each token to the next."""
    return Graph(
        name=name,
        blocks=blocks,
        batch=wanted.batch,
        sequence=wanted.sequence,
        training=wanted.training,
        boundary_bytes=FLOAT_BYTES * wanted.batch * wanted.sequence * hidden,
    )
