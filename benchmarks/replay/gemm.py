"""Tiles of CLBlast's Xgemm kernel, 4096 x 4096 x 4096 in float32, from its tuning parameters.

A block of MDIMC x NDIMC threads computes MWG x NWG outputs and walks through K in steps of KWG;
SA and SB stage the operands in shared memory. STRM = STRN = 0: a thread's outputs are adjacent, so
that neighbouring threads are MWG / MDIMC elements apart.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tune_farm.tuner.predictor.gpu_tiles import GpuTiles

Floats = NDArray[np.float64]

_SIZE = 4096.0
_BANKS = 32
#: Registers beside accumulators and operands: addresses, counters.
_OTHER_REGISTERS = 24.0


def gemm_tiles(p: Mapping[str, Floats]) -> GpuTiles:
    """Look at configurations: each parameter is (configurations,) float64."""
    threads = p["MDIMC"] * p["NDIMC"]
    rows, columns = p["MWG"] / p["MDIMC"], p["NWG"] / p["NDIMC"]  # of a thread
    warps = threads / _BANKS
    asked = 4.0 * _SIZE * (p["MWG"] + p["NWG"]) + 8.0 * p["MWG"] * p["NWG"]
    wavefronts = warps * _SIZE * (_operand(p, "M") + _operand(p, "N"))
    staged = _staging(p, "M", "A") + _staging(p, "N", "B")
    loads = _SIZE * (_loads(p, "M", "A", threads) + _loads(p, "N", "B", threads))
    return GpuTiles(
        blocks=(_SIZE / p["MWG"]) * (_SIZE / p["NWG"]),
        threads=threads,
        registers=rows * columns + rows + columns + _OTHER_REGISTERS,
        shared_bytes=4.0 * p["KWG"] * (p["SA"] * p["MWG"] + p["SB"] * p["NWG"]),
        flops=2.0 * p["MWG"] * p["NWG"] * _SIZE,
        accumulators=rows * columns,
        global_bytes=asked,
        unique_bytes=np.full(len(threads), 4.0 * 4.0 * _SIZE**2),
        shared_traffic_bytes=128.0 * (wavefronts + staged),
        loads=loads,
        vector_bytes=4.0 * np.sqrt(p["VWM"] * p["VWN"]),
        code=p["KWI"] * (rows * columns + rows / p["VWM"] + columns / p["VWN"]),
    )


def _operand(p: Mapping[str, Floats], side: str) -> Floats:
    """Wavefronts in which a warp fetches its part of one operand for one step of K."""
    stride = p[f"{side}WG"] / p[f"{side}DIMC"]
    vector = p[f"VW{side}"]
    along = np.minimum(p["MDIMC"], _BANKS)  # threads of a warp along M
    lanes = along if side == "M" else np.maximum(1.0, _BANKS / along)
    columns = zip(lanes, _BANKS / lanes if side == "M" else along, stride, vector, strict=True)
    each = np.array([_wavefronts(*(int(v) for v in row), side == "M") for row in columns])
    return np.asarray(each * stride / vector)


@functools.cache
def _wavefronts(lanes: int, copies: int, stride: int, vector: int, is_inner: bool) -> float:
    """Wavefronts of one load by a warp from banked memory.

    A warp's load of 4-byte words goes in one wavefront, of 8 in two, of 16 in four, of 32 in two
    loads of four, unless several lanes want words of one bank; the same word is had at once.
    """
    width = min(vector, 4)
    group = _BANKS // width  # lanes that are served together
    position = [(lane % lanes if is_inner else lane // copies) * stride for lane in range(_BANKS)]
    total = 0
    for first in range(0, _BANKS, group):
        words = {start + w for start in position[first : first + group] for w in range(width)}
        banks = np.bincount([word % _BANKS for word in words])
        total += int(banks.max())
    return total * (vector / width)


def _loads(p: Mapping[str, Floats], side: str, operand: str, threads: Floats) -> Floats:
    """Load instructions of a thread for one step of K, staging included; of 16 bytes at most."""
    vector = np.minimum(p[f"VW{side}"], 4.0)
    along = np.minimum(p["MDIMC"], _BANKS)
    lanes = along if side == "M" else _BANKS / along
    distinct = np.where(lanes > 1, 1.0, 0.5)  # one address for a whole warp is served at once
    own = p[f"{side}WG"] / p[f"{side}DIMC"] / vector * distinct
    staged = p[f"S{operand}"] * 2.0 * p[f"{side}WG"] / (vector * threads)
    return np.asarray(own + staged)


def _staging(p: Mapping[str, Floats], side: str, operand: str) -> Floats:
    """Wavefronts of a block that carry one operand through L1 into shared memory."""
    words = _SIZE * p[f"{side}WG"]
    per_thread = p[f"{side}WG"] / p[f"{side}DIM{operand}"]
    # Each thread's words are adjacent: a line is asked for once per vector of it.
    spread = np.clip(per_thread / p[f"VW{side}"], 1.0, 8.0)
    return np.asarray(p[f"S{operand}"] * words / _BANKS * 2.0 * spread)
