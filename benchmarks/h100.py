"""An NVIDIA H100 SXM, for benchmarks that compile for one and need none."""

from __future__ import annotations

import json

from tune_farm.tuner.predictor.cuda_target import cuda_target
from tune_farm.tuner.predictor.machine import Gpu

#: NVIDIA H100 Tensor Core GPU Architecture (white paper, 2022), table 3 (SXM5), and CUDA C++
#: Programming Guide, "Technical Specifications per Compute Capability", 9.0. No bandwidth of L2 is
#: published; nothing here depends on it.
H100 = Gpu(
    sms=132,
    total_sms=132,
    clock_hertz=1.83e9,
    fused_multiply_adds=128,
    max_threads=2048,
    max_blocks=32,
    max_block_threads=1024,
    registers=65536,
    max_thread_registers=255,
    shared_bytes=228 << 10,
    max_block_shared_bytes=227 << 10,
    l2_bytes=50 << 20,
    l2_bytes_per_second=5.5e12,
    dram_bytes_per_second=3.35e12,
    # 2,048 by the white paper's 989 TFLOPS, of which `mma.sync` reaches 63% (Luo et al.,
    # "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", IPDPS 2024).
    tensor_multiply_adds=1290,
)
H100_TARGET_JSON = json.dumps(cuda_target(H100, "9.0"))
