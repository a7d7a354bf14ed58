"""A GPU as the predictor's laws see it, from what the CUDA driver says of it.

The driver does not tell all of it. What one SM does in a cycle follows from the compute capability
(CUDA C++ Programming Guide, "Arithmetic Instructions" and "Technical Specifications per Compute
Capability"); bytes a cycle from the L2 cache are those of the A100 (NVIDIA A100 Tensor Core GPU
Architecture, 2020: 5,120 for 108 SMs), for all generations: an assumption.
"""

from __future__ import annotations

from tune_farm.client.devices.cuda_driver import CudaDevice
from tune_farm.tuner.predictor.machine import Gpu

#: Single-precision multiply-adds of one SM in a cycle; 128 for all others.
_MULTIPLY_ADDS = {"6.0": 64, "7.0": 64, "7.2": 64, "7.5": 64, "8.0": 64}
#: Operands of 16 bits, dense: 1,024 on 8.0, half of that on 8.6 to 8.9 and 7.x.
_TENSOR_MULTIPLY_ADDS = {"7.0": 512, "7.2": 512, "7.5": 512, "8.6": 512, "8.7": 1024, "8.9": 512}
_MOST_THREAD_REGISTERS = 255
_L2_BYTES_PER_CYCLE_AND_SM = 5120 / 108
#: Both edges of the memory's clock carry data.
_TRANSFERS_PER_CYCLE = 2


def gpu_machine(device: CudaDevice, sms: int) -> Gpu:
    """A share of a device.

    Args:
        device: all of it.
        sms: of the share.
    """
    capability = device.compute_capability
    return Gpu(
        sms=sms,
        total_sms=device.sm_count,
        clock_hertz=device.clock_hertz,
        fused_multiply_adds=_MULTIPLY_ADDS.get(capability, 128),
        tensor_multiply_adds=_TENSOR_MULTIPLY_ADDS.get(capability, 1024),
        max_threads=device.threads_per_sm,
        max_blocks=device.blocks_per_sm,
        max_block_threads=device.threads_per_block,
        registers=device.registers_per_sm,
        max_thread_registers=_MOST_THREAD_REGISTERS,
        shared_bytes=device.shared_bytes_per_sm,
        max_block_shared_bytes=device.shared_bytes_per_block,
        l2_bytes=device.l2_bytes,
        l2_bytes_per_second=_L2_BYTES_PER_CYCLE_AND_SM * device.sm_count * device.clock_hertz,
        dram_bytes_per_second=(
            _TRANSFERS_PER_CYCLE * device.memory_clock_hertz * device.memory_bus_bits / 8
        ),
        warp=device.warp,
    )
