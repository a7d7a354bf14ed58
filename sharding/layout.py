"""How a model's tensors lie in memory: as its author wrote it, or as the processor likes it."""

from __future__ import annotations

import enum


class Layout(enum.Enum):
    """What a model's tensors look like while it runs; inputs and outputs keep their layout."""

    GIVEN = "given"
    #: Activations of convolutions channels last, constant weights in panels of one cache line: the
    #: vectors that a schedule loads lie side by side.
    PACKED = "packed"
