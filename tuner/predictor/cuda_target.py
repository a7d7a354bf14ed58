"""TVM's target for a GPU, with the limits of the device rather than those of a tag."""

from __future__ import annotations

from typing import Any

from tune_farm.tuner.predictor.machine import Gpu

#: From this compute capability on, some instructions exist under the "a" of an architecture only.
_FIRST_WITH_OWN_FEATURES = 9


def cuda_target(gpu: Gpu, compute_capability: str) -> dict[str, Any]:
    """The JSON of a target.

    TVM's tags name 48 KiB of shared memory for every GPU: what a kernel gets without asking. Here
    it is what the device opts in to, which sketches reach by dynamic shared memory.

    Args:
        gpu: the share.
        compute_capability: such as "9.0".
    """
    major, minor = compute_capability.split(".")
    suffix = "a" if int(major) >= _FIRST_WITH_OWN_FEATURES else ""
    return {
        "kind": "cuda",
        "arch": f"sm_{major}{minor}{suffix}",
        "thread_warp_size": gpu.warp,
        "max_threads_per_block": gpu.max_block_threads,
        "max_num_threads": gpu.max_block_threads,
        "max_shared_memory_per_block": gpu.max_block_shared_bytes,
        "registers_per_block": gpu.registers,
        "l2_cache_size_bytes": gpu.l2_bytes,
    }
