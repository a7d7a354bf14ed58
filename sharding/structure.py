"""What a PrimFunc consists of: loops, blocks, the buffers it writes."""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax, s_tir, tirx


def statements(statement: tirx.Stmt) -> Iterator[tirx.Stmt]:
    """A statement and all below it, blocks without their initial values."""
    yield statement
    for child in _children(statement):
        yield from statements(child)


def _children(statement: tirx.Stmt) -> list[tirx.Stmt]:
    if isinstance(statement, tirx.SeqStmt):
        return list(statement.seq)
    if isinstance(statement, s_tir.SBlockRealize):
        return [statement.block]
    if isinstance(statement, tirx.IfThenElse):
        cases = [statement.then_case, statement.else_case]
        return [case for case in cases if case is not None]
    if isinstance(statement, (tirx.For, s_tir.SBlock, tirx.AttrStmt, tirx.While)):
        return [statement.body]
    return []


def written_buffers(function: tirx.PrimFunc) -> list[tvm.ir.Var]:
    """The buffers that a function stores to, temporary ones included."""
    return [
        statement.buffer
        for statement in statements(function.body)
        if isinstance(statement, tirx.BufferStore)
    ]


def untunable_reason(function: tirx.PrimFunc) -> str | None:
    """Why a function has no schedule to look for, or None if it has."""
    found = list(statements(function.body))
    if any(isinstance(statement, tirx.Evaluate) for statement in found):
        return "it calls a library function instead of computing in loops"
    if not any(isinstance(statement, tirx.For) for statement in found):
        return "it has no loops: one element is computed"
    blocks = [statement for statement in found if isinstance(statement, s_tir.SBlock)]
    if not any(block.iter_vars for block in blocks):
        return "it is written without blocks, which schedules need"
    if relax.analysis.has_reshape_pattern(function):
        return "it only reinterprets a shape: the runtime makes a view without copying"
    return None
