from __future__ import annotations

import pytest

from tune_farm.tuner.measure.cuda_faults import fault_of, is_lasting
from tune_farm.tuner.types import Fault


@pytest.mark.parametrize(
    ("message", "fault", "lasting"),
    [
        ("CUDAError: cuLaunchKernel failed with CUDA_ERROR_ILLEGAL_ADDRESS", "illegal", True),
        ("CUDA: an illegal memory access was encountered", "illegal", True),
        ("CUDA_ERROR_MISALIGNED_ADDRESS", "illegal", True),
        ("CUDA_ERROR_LAUNCH_FAILED", "run", True),
        ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "resources", False),
        ("CUDA: out of memory", "resources", False),
        ("CUDA_ERROR_INVALID_VALUE", "run", False),
        ("CUDA_ERROR_MPS_CLIENT_TERMINATED", "died", True),
        ("CUDA_ERROR_MPS_RPC_FAILURE", "died", True),
        ("CUDA_ERROR_LAUNCH_TIMEOUT", "timeout", True),
    ],
)
def test_what_an_error_says(message: str, fault: str, lasting: bool) -> None:
    expected = {
        "illegal": Fault.ILLEGAL_ACCESS,
        "run": Fault.RUN_ERROR,
        "resources": Fault.OUT_OF_RESOURCES,
        "died": Fault.WORKER_DIED,
        "timeout": Fault.RUN_TIMEOUT,
    }[fault]

    assert fault_of(message) is expected
    assert is_lasting(message) is lasting
