"""What a compute capability says of an SM beyond the data sheet of a GPU.

CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; white papers of
Pascal (2016), Volta (2017), Turing (2018), Ampere (2020), Ada and Hopper (2022).
"""

from __future__ import annotations

import math

from tune_farm.tuner.predictor.forecast.chip import Chip

WARP = 32
SHARED_BYTES = 128.0  # a cycle, of one SM
LINK_BYTES = 64.0  # a cycle, between an SM and L2
PARTITIONS = 4  # of an SM, as far as its warps are concerned

#: cuBLAS's FP32 products reach about three quarters of the peak where an SM of Volta's design has
#: 128 lanes (RTX 3090 and 4090, H100: as users report), and nine tenths where it has 64: operands
#: from the same bank of registers cost a cycle there that was free here.
_CONFLICTS = 1.15

#: FP16 or BF16 on tensor cores with FP32 sums, dense, over FP32 outside them: data sheets of V100
#: (125 / 15.7 TFLOP/s), T4 (65 / 8.1), A100 (312 / 19.5), A10 and L4 (4), H100 (989 / 66.9) and
#: B200 (2250 / 80).
_TENSOR = {(7, 0): 8.0, (7, 5): 8.0, (8, 0): 16.0, (8, 6): 4.0, (8, 9): 4.0, (9, 0): 14.8}
_NEWEST_TENSOR = {10: 28.0, 12: 4.0}


#: L2 in two halves, each of which keeps what its own SMs ask for: what all of them ask for is there
#: twice (NVIDIA A100 Tensor Core GPU Architecture, "A100 L2 cache"; H100 and B200 likewise).
_HALVED_L2 = {(8, 0), (9, 0), (10, 0)}


def useful_l2_bytes(chip: Chip) -> float:
    """Of L2, what holds data that all SMs may ask for."""
    return chip.l2_bytes / 2 if chip.generation in _HALVED_L2 else chip.l2_bytes


def schedulers(chip: Chip) -> int:
    """Warp schedulers of an SM: each issues one instruction of a warp in a cycle."""
    return 2 if chip.generation == (6, 0) else 4


def mixed_instructions(chip: Chip) -> float:
    """Instructions of threads that an SM runs in a cycle, where half are FP32's.

    All need an issue slot, those a lane, too: the geometric mean of what there is of both.
    """
    return math.sqrt(WARP * schedulers(chip) * chip.fp32_lanes)


def operand_conflicts(chip: Chip) -> float:
    """How much longer multiply-adds take whose operands wait for each other."""
    return _CONFLICTS if chip.fp32_lanes == 128 and chip.generation >= (8, 6) else 1.0


def most_threads(chip: Chip) -> int:
    """That an SM holds."""
    if chip.generation == (7, 5):
        return 1024
    major, minor = chip.generation
    return 1536 if major == 12 or (major == 8 and minor >= 6) else 2048


def tensor_factor(chip: Chip) -> float:
    """The peak of half-precision products over that of FP32 outside tensor cores."""
    known = _TENSOR.get(chip.generation)
    return known if known is not None else _NEWEST_TENSOR.get(chip.generation[0], 1.0)
