"""The three operators of a Winograd convolution as tensor programs, nothing scheduled yet.

Input transform and output transform handle one tile of one channel in a block: loads, two passes of
a small matrix over them, stores. Channels lie innermost and are cut into cache lines, so a line of
channels fills the vectors. In between stands a product of (tile + 2)² matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as script

from tune_farm.sharding.winograd.convolution import Convolution, Epilogue
from tune_farm.sharding.winograd.matrices import OF_INPUT, OF_OUTPUT, Matrix
from tune_farm.sharding.winograd.tiles import LANES, Tiles

Expr = Any  # tvm.ir.Expr, of float or integer type


def input_transform(convolution: Convolution, tile: int) -> tirx.PrimFunc:
    """(batch, height, width, channels) to ((tile + 2)², tiles, channels)."""
    conv, tiles = convolution, Tiles.of(convolution, tile)
    with _function() as built:
        data = _argument("data", (conv.batch, conv.height, conv.width, conv.channels))
        transformed = _argument("transformed", (tiles.points, tiles.count, conv.channels))
        with _over_tiles("winograd_input", tiles, conv.channels) as (n, row, column, channel):
            place = tiles.index(n, row, column)
            script.reads(data[n, 0 : conv.height, 0 : conv.width, channel])
            script.writes(transformed[0 : tiles.points, place, channel])

            def load(i: int, j: int) -> Expr:
                y = row * tile + (i - conv.pad_top)
                x = column * tile + (j - conv.pad_left)
                inside = [
                    *_bounds(y, i - conv.pad_top, tile * (tiles.rows - 1), conv.height),
                    *_bounds(x, j - conv.pad_left, tile * (tiles.columns - 1), conv.width),
                ]
                loaded = data[n, y, x, channel]
                if inside:
                    loaded = tirx.if_then_else(tirx.all(*inside), loaded, _float(0))
                return script.Bind(loaded)

            values = _transform(OF_INPUT[tile], load)
            for point, value in enumerate(value for line in values for value in line):
                script.buffer_store(transformed, value, [_integer(point), place, channel])
    return built()


def product(convolution: Convolution, tile: int) -> tirx.PrimFunc:
    """One matrix product for each point: of ((tile + 2)², tiles, channels) and packed weights."""
    conv, tiles = convolution, Tiles.of(convolution, tile)
    with _function() as built:
        left = _argument("transformed", (tiles.points, tiles.count, conv.channels))
        weight = _argument("weight", tiles.weight_shape(conv.channels, conv.filters))
        result = _argument("products", (tiles.points, tiles.count, conv.filters))
        extents = (tiles.points, tiles.count, conv.filters // LANES, LANES, conv.channels)
        with script.grid(*map(_integer, extents)) as loops, script.sblock("winograd_matmul"):
            point, place, panel, lane = (
                script.axis.spatial(_integer(extent), loop, "int64")
                for extent, loop in zip(extents[:4], loops[:4], strict=True)
            )
            summed = script.axis.reduce(_integer(conv.channels), loops[4], "int64")
            at = [point, place, panel * LANES + lane]
            script.reads(left[point, place, summed], weight[point, panel, summed, lane])
            script.writes(result[tuple(at)])
            with script.init():
                script.buffer_store(result, _float(0), at)
            term = left[point, place, summed] * weight[point, panel, summed, lane]
            script.buffer_store(result, result[tuple(at)] + term, at)
    return built()


def output_transform(convolution: Convolution, tile: int) -> tirx.PrimFunc:
    """((tile + 2)², tiles, filters) and the epilogue's operands to the convolution's output."""
    conv, tiles = convolution, Tiles.of(convolution, tile)
    epilogue = conv.epilogue
    with _function() as built:
        products = _argument("products", (tiles.points, tiles.count, conv.filters))
        operands = [_argument(name, shape) for name, shape in epilogue.operands]
        output = _argument("output", (conv.batch, conv.out_height, conv.out_width, conv.filters))
        with _over_tiles("winograd_output", tiles, conv.filters) as (n, row, column, channel):
            place = tiles.index(n, row, column)
            script.reads(
                products[0 : tiles.points, place, channel],
                *_regions(epilogue, operands, n, channel),
            )
            script.writes(output[n, 0 : conv.out_height, 0 : conv.out_width, channel])

            def load(i: int, j: int) -> Expr:
                return script.Bind(products[i * (tile + 2) + j, place, channel])

            values = _transform(OF_OUTPUT[tile], load)
            for i, line in enumerate(values):
                for j, value in enumerate(line):
                    y, x = row * tile + i, column * tile + j
                    result = epilogue.value([n, y, x, channel], value, operands)
                    inside = [
                        *_bounds(y, i, tile * (tiles.rows - 1), conv.out_height),
                        *_bounds(x, j, tile * (tiles.columns - 1), conv.out_width),
                    ]
                    with _when(inside):
                        script.buffer_store(output, result, [n, y, x, channel])
    return built()


@contextmanager
def _function() -> Iterator[Callable[[], tirx.PrimFunc]]:
    """A function `main` under construction; call what is yielded once it is left."""
    with IRBuilder() as builder, script.prim_func(s_tir=True):
        script.func_name("main")
        script.func_attr({"tirx.noalias": True})
        yield builder.get


@contextmanager
def _over_tiles(name: str, tiles: Tiles, channels: int) -> Iterator[tuple[Expr, Expr, Expr, Expr]]:
    """A block for each tile and channel: sample, row and column of the tile, channel."""
    extents = (tiles.batch, tiles.rows, channels // LANES, tiles.columns, LANES)
    with script.grid(*map(_integer, extents)) as loops, script.sblock(name):
        n, row, line, column, lane = (
            script.axis.spatial(_integer(extent), loop, "int64")
            for extent, loop in zip(extents, loops, strict=True)
        )
        yield n, row, column, line * LANES + lane


@contextmanager
def _when(conditions: Sequence[Expr]) -> Iterator[None]:
    if not conditions:
        yield
        return
    with script.If(tirx.all(*conditions)), script.Then():
        yield


def _argument(name: str, shape: Sequence[int]) -> Any:
    return script.arg(name, script.buffer([_integer(size) for size in shape], "float32"))


def _transform(matrix: Matrix, load: Callable[[int, int], Expr]) -> list[list[Expr]]:
    """M · values · Mᵀ, each intermediate value bound: the compiler need not find equal terms."""
    points = range(len(matrix[0]))
    columns = [_multiply(matrix, [load(i, j) for i in points]) for j in points]
    return [_multiply(matrix, [column[line] for column in columns]) for line in range(len(matrix))]


def _multiply(matrix: Matrix, values: Sequence[Expr]) -> list[Expr]:
    return [script.Bind(_combine(row, values)) for row in matrix]


def _combine(factors: Sequence[float], values: Sequence[Expr]) -> Expr:
    """The sum of factors times values, positive ones first, without multiplications by 1 and 0."""
    total: Expr = None
    for factor, value in sorted(zip(factors, values, strict=True), key=lambda term: -term[0]):
        if factor == 0:
            continue
        term = value if abs(factor) == 1 else value * _float(abs(factor))
        total = term if total is None else total + term if factor > 0 else total - term
    return total


def _bounds(index: Expr, offset: int, furthest: int, size: int) -> list[Expr]:
    """The conditions under which an index that runs from `offset` is inside of 0 to `size`."""
    low = [index >= 0] if offset < 0 else []
    return low + ([index < size] if offset + furthest >= size else [])


def _regions(epilogue: Epilogue, operands: Sequence[Any], n: Expr, channel: Expr) -> list[Any]:
    """What a block reads of the epilogue's operands: where a tile's rows matter, all of them."""
    found = []
    for operand, follows in zip(operands, epilogue.follows, strict=True):
        at = {-1: _integer(0), 0: n, 3: channel}
        index = tuple(
            at[axis] if axis in at else slice(0, int(size))
            for axis, size in zip(follows, operand.ty.shape, strict=True)
        )
        found.append(operand[index])
    return found


def _integer(value: int) -> Expr:
    return tvm.tirx.const(value, "int64")


def _float(value: float) -> Expr:
    return tvm.tirx.const(value, "float32")
