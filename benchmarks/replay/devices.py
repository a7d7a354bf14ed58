"""The devices of the recorded spaces, from their makers' data sheets; nothing here was fitted.

Sources: NVIDIA Turing, Ampere GA102 and A100 architecture papers and the data sheets of the boards
(SMs, lanes, clocks, memory); CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability" 7.5, 8.0, 8.6 (threads, blocks, registers, shared memory); AMD CDNA 2 paper and the
MI250X data sheet (one of its two dies, which is what a kernel sees). Bytes a clock from L2, which
data sheets leave out: 128 for each 32-bit memory channel of a Turing or GA102 board (what public
microbenchmarks reach), 5,120 in the A100 paper, 128 for each of 32 channels in the CDNA 2 paper.
"""

from __future__ import annotations

from tune_farm.tuner.predictor.machine import Gpu

_KIB = 1024


def _nvidia(
    *,
    sms: int,
    megahertz: float,
    lanes: int,
    threads: int,
    blocks: int,
    shared_kib: int,
    l2_kib: int,
    l2_bytes: float,
    dram_gigabytes: float,
    shared_bytes: float = 128.0,
    load_lanes: int = 16,
) -> Gpu:
    return Gpu(
        sms=sms,
        total_sms=sms,
        clock_hertz=megahertz * 1e6,
        fused_multiply_adds=lanes,
        max_threads=threads,
        max_blocks=blocks,
        max_block_threads=1024,
        registers=65536,
        max_thread_registers=255,
        shared_bytes=shared_kib * _KIB,
        max_block_shared_bytes=48 * _KIB,  # these kernels declare it statically
        l2_bytes=l2_kib * _KIB,
        l2_bytes_per_second=l2_bytes * megahertz * 1e6,
        dram_bytes_per_second=dram_gigabytes * 1e9,
        shared_bytes_per_cycle=shared_bytes,
        load_lanes=load_lanes,
    )


DEVICES = {
    "RTX_3090": _nvidia(
        sms=82,
        megahertz=1695,
        lanes=128,
        threads=1536,
        blocks=16,
        shared_kib=100,
        l2_kib=6144,
        l2_bytes=1536,
        dram_gigabytes=936,
    ),
    "RTX_2080_Ti": _nvidia(
        sms=68,
        megahertz=1545,
        lanes=64,
        threads=1024,
        blocks=16,
        shared_kib=64,
        l2_kib=5632,
        l2_bytes=1408,
        dram_gigabytes=616,
        shared_bytes=64.0,
    ),
    "A100": _nvidia(
        sms=108,
        megahertz=1410,
        lanes=64,
        threads=2048,
        blocks=32,
        shared_kib=164,
        l2_kib=40960,
        l2_bytes=5120,
        dram_gigabytes=1555,
        load_lanes=32,
    ),
    "A4000": _nvidia(
        sms=48,
        megahertz=1560,
        lanes=128,
        threads=1536,
        blocks=16,
        shared_kib=100,
        l2_kib=4096,
        l2_bytes=1024,
        dram_gigabytes=448,
    ),
    "A6000": _nvidia(
        sms=84,
        megahertz=1800,
        lanes=128,
        threads=1536,
        blocks=16,
        shared_kib=100,
        l2_kib=6144,
        l2_bytes=1536,
        dram_gigabytes=768,
    ),
    "MI250X": Gpu(
        sms=110,
        total_sms=110,
        clock_hertz=1.7e9,
        fused_multiply_adds=64,
        max_threads=2048,
        max_blocks=32,
        max_block_threads=1024,
        registers=131072,
        max_thread_registers=256,
        shared_bytes=64 * _KIB,
        max_block_shared_bytes=64 * _KIB,
        l2_bytes=8192 * _KIB,
        l2_bytes_per_second=32 * 128 * 1.7e9,
        dram_bytes_per_second=1638e9,
        warp=64,
    ),
}
