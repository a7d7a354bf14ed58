"""The check's own kernels as launches: sentinels, and matrix products by several tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

import numpy as np
from numpy.typing import NDArray

from benchmarks.gpu.messages import Buffer, Launch, Number
from tune_farm.tuner.predictor.gpu_tiles import GpuTiles

_FLOAT_BYTES = 4
_MIB = 1 << 20
_DEPTH = 16  # of the products' shared tiles, as in check.cu
_LEFT_PADDING = 4  # floats a row there
_BASE_REGISTERS = 20  # of a thread for addresses and indices, as the predictor assumes
#: How far a product's element may be from the exact one for each of its terms.
PRODUCT_TOLERANCE = 1e-6


def tiles_of(row: Mapping[str, float]) -> GpuTiles:
    """The law's view of one launch, arrays of one draft."""
    values = {name: np.array([float(value)]) for name, value in row.items()}
    return GpuTiles(**values, on_tensor_cores=False)


def row_of(tiles: GpuTiles) -> dict[str, float]:
    """Back again, the first draft; no kernel here is on tensor cores."""
    names = [field.name for field in fields(tiles) if field.name != "on_tensor_cores"]
    return {name: float(np.asarray(getattr(tiles, name))[0]) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """`GpuTiles` of one launch, in numbers."""

    blocks: float
    threads: float
    registers: float = 32.0
    shared_bytes: float = 0.0
    flops: float = 0.0
    accumulators: float = 8.0
    global_bytes: float = 0.0
    unique_bytes: float = 0.0
    shared_traffic_bytes: float = 0.0
    loads: float = 0.0
    vector_bytes: float = 16.0
    code: float = 64.0


def sentinels(code: str, sms: int) -> dict[str, Launch]:
    """One kernel for each of what neighbours and clocks can take away.

    Args:
        code: the cubin.
        sms: of the whole GPU: grids are a multiple of them.
    """
    return {
        "arithmetic": _arithmetic(code, sms),
        "memory": _stream(code, sms),
        "l2": _resident(code, sms),
    }


def _arithmetic(code: str, sms: int) -> Launch:
    steps, threads, blocks = 8192, 256, 8 * sms
    return Launch(
        name="arithmetic",
        code=code,
        function="arithmetic",
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        arguments=(
            Buffer(name="arithmetic out", bytes=blocks * threads * _FLOAT_BYTES),
            Number(value=steps),
        ),
        tiles=asdict(
            _Row(
                blocks=blocks,
                threads=threads,
                flops=2.0 * 8 * steps * threads,
                global_bytes=threads * _FLOAT_BYTES,
                unique_bytes=blocks * threads * _FLOAT_BYTES,
            )
        ),
    )


def _stream(code: str, sms: int) -> Launch:
    size, threads, blocks = 256 * _MIB, 512, 4 * sms
    return Launch(
        name="memory",
        code=code,
        function="stream",
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        arguments=(
            Buffer(name="stream in", bytes=size, seed=1),
            Buffer(name="stream out", bytes=size),
            Number(value=size // 16, bits=64),
        ),
        tiles=asdict(
            _Row(
                blocks=blocks,
                threads=threads,
                global_bytes=2.0 * size / blocks,
                unique_bytes=2.0 * size,
                loads=size / 16 / blocks / threads,
            )
        ),
    )


def _resident(code: str, sms: int) -> Launch:
    size, rounds, threads, blocks = 16 * _MIB, 64, 512, 4 * sms
    return Launch(
        name="l2",
        code=code,
        function="resident",
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        arguments=(
            Buffer(name="resident in", bytes=size, seed=2),
            Buffer(name="resident out", bytes=blocks * threads * _FLOAT_BYTES),
            Number(value=size // 16, bits=64),
            Number(value=rounds),
        ),
        tiles=asdict(
            _Row(
                blocks=blocks,
                threads=threads,
                global_bytes=float(rounds) * size / blocks,
                unique_bytes=float(size),
                loads=rounds * size / 16 / blocks / threads,
            )
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A matrix product by tiles; sizes are multiples of the tile's."""

    tile: tuple[int, int]  # outputs of a block
    own: tuple[int, int]  # outputs of a thread
    size: tuple[int, int, int]  # m, n, k

    @property
    def name(self) -> str:
        """For people."""
        m, n, k = self.size
        return f"{self._shape} of {m}x{n}x{k}"

    @property
    def _shape(self) -> str:
        return f"{self.tile[0]}x{self.tile[1]}_{self.own[0]}x{self.own[1]}"

    def launch(self, code: str, registers: Mapping[str, int]) -> Launch:
        """As it is launched from a cubin.

        Args:
            code: the cubin.
            registers: of a thread, by kernel, as the assembler said; may lack it.
        """
        m, n, k = self.size
        function = f"product_{self._shape}"
        threads = self.tile[0] // self.own[0] * (self.tile[1] // self.own[1])
        grid = (n // self.tile[1], m // self.tile[0], 1)
        inputs = {"left": m * k, "right": k * n, "result": m * n}
        left, right, result = (
            Buffer(
                name=f"{what} {m}x{n}x{k}",
                bytes=count * _FLOAT_BYTES,
                seed=None if what == "result" else count,
            )
            for what, count in inputs.items()
        )
        return Launch(
            name=self.name,
            code=code,
            function=function,
            grid=grid,
            block=(threads, 1, 1),
            arguments=(left, right, result, Number(value=n), Number(value=k)),
            tiles=asdict(self._row(threads, grid[0] * grid[1], registers.get(function))),
        )

    def places(self, count: int) -> tuple[int, ...]:
        """Outputs to look at."""
        m, n, _ = self.size
        return tuple(int(each) for each in np.random.default_rng(m).integers(0, m * n, count))

    def reference(self, places: tuple[int, ...], left: Floats, right: Floats) -> Floats:
        """The exact results there, from all values of both inputs."""
        _, n, k = self.size
        rows, columns = np.divmod(np.array(places), n)
        return np.asarray((left.reshape(-1, k)[rows] * right.reshape(k, -1).T[columns]).sum(axis=1))

    def _row(self, threads: int, blocks: int, registers: int | None) -> _Row:
        m, n, k = self.size
        both, own, sums = sum(self.tile), sum(self.own), self.own[0] * self.own[1]
        return _Row(
            blocks=blocks,
            threads=threads,
            registers=float(registers or _BASE_REGISTERS + sums + own),
            shared_bytes=_FLOAT_BYTES * _DEPTH * (both + _LEFT_PADDING),
            flops=2.0 * self.tile[0] * self.tile[1] * k,
            accumulators=sums,
            global_bytes=_FLOAT_BYTES * (both * k + self.tile[0] * self.tile[1]),
            unique_bytes=_FLOAT_BYTES * float(m * k + k * n + m * n),
            shared_traffic_bytes=_FLOAT_BYTES * float(k) * (threads * own + both),
            loads=k * (own + both / threads),
            vector_bytes=_FLOAT_BYTES,
            code=_DEPTH * (sums + own),
        )


Floats = NDArray[np.float64]
_SHAPES = (
    ((32, 32), (2, 2)),
    ((64, 64), (4, 4)),
    ((64, 64), (8, 8)),
    ((128, 64), (8, 4)),
    ((128, 128), (8, 8)),
)
#: Many waves on any GPU; and few blocks, of which the last wave is a large part.
_SIZES = ((2048, 2048, 512), (1152, 1152, 1024))
PRODUCTS = tuple(Product(tile=tile, own=own, size=size) for size in _SIZES for tile, own in _SHAPES)
