"""The law is physical: more of anything never hurts, and the share's SMs decide the order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuner.predictor.machines import GPU, gpu_tiles
from tune_farm.tuner.predictor.gpu_law import gpu_seconds, waves
from tune_farm.tuner.predictor.gpu_tiles import GpuTiles

anything = st.builds(
    gpu_tiles,
    blocks=st.integers(1, 20_000).map(float),
    threads=st.integers(1, 1024).map(float),
    registers=st.integers(16, 400).map(float),
    shared_bytes=st.integers(0, 48 << 10).map(float),
    accumulators=st.integers(1, 256).map(float),
    global_bytes=st.floats(1e2, 1e8),
    unique_bytes=st.floats(1e4, 1e9),
    loads=st.floats(1.0, 1e5),
)


def seconds(tiles: GpuTiles, sms: int = GPU.sms, **changes: float) -> float:
    return float(gpu_seconds(tiles, replace(GPU, sms=sms, **changes))[0])  # type: ignore[arg-type]


@settings(max_examples=100, deadline=None)
@given(tiles=anything, sms=st.integers(1, 99))
def test_more_sms_are_never_slower(tiles: GpuTiles, sms: int) -> None:
    assert seconds(tiles, sms + 1) <= seconds(tiles, sms) * (1 + 1e-9)


@settings(max_examples=100, deadline=None)
@given(tiles=anything)
def test_no_draft_beats_the_roofline(tiles: GpuTiles) -> None:
    multiply_adds = tiles.blocks[0] * tiles.flops[0] / 2
    peak = GPU.sms * GPU.fused_multiply_adds * GPU.clock_hertz
    memory = tiles.unique_bytes[0] / GPU.dram_bytes_per_second

    assert seconds(tiles) >= max(multiply_adds / peak, memory) * (1 - 1e-9)


@pytest.mark.parametrize(
    "worse",
    [
        {"global_bytes": 1e8},
        {"shared_traffic_bytes": 1e9},
        {"loads": 1e6},
        {"registers": 300.0},  # spills
        {"threads": 250.0},  # its last warp is not full
        {"accumulators": 1.0},  # nothing hides latency
        {"shared_bytes": 90e3},  # one block an SM
    ],
)
def test_what_costs_is_seen(worse: dict[str, float]) -> None:
    assert seconds(gpu_tiles(**worse)) > seconds(gpu_tiles())


def test_what_does_not_fit_takes_for_ever() -> None:
    assert np.isinf(gpu_seconds(gpu_tiles(threads=2048.0), GPU)).all()


def test_fewer_sms_share_the_same_memory() -> None:
    streaming = gpu_tiles(
        flops=1e4, global_bytes=1e6, unique_bytes=1e9, loads=1.0, shared_traffic_bytes=1e4
    )

    assert seconds(streaming, 50) < 1.5 * seconds(streaming, 100)  # not twice
    assert seconds(gpu_tiles(), 50) == pytest.approx(2 * seconds(gpu_tiles(), 100), rel=0.1)


def test_the_order_of_drafts_depends_on_the_share() -> None:
    """Large tiles reuse more, but on the whole device they leave half of the SMs without work."""
    large = gpu_tiles(blocks=50.0)
    small = gpu_tiles(
        blocks=200.0,
        flops=2.0 * 64 * 64 * 4096,
        accumulators=16.0,
        global_bytes=4.0 * 128 * 4096,
        shared_traffic_bytes=8.0 * 256 * 4096,
        loads=2.5 * 4096,
        shared_bytes=16384.0,
        registers=64.0,
    )
    whole, fifth = GPU, replace(GPU, sms=20)

    assert seconds(small, whole.sms) < seconds(large, whole.sms)
    assert seconds(large, fifth.sms) < seconds(small, fifth.sms)
    # Of the whole device, the large tiles' 50 blocks keep 50 of 100 SMs busy for one wave, the
    # small ones' 200 keep all of them. Of a fifth, both fill 20 SMs.
    assert [waves(large, gpu)[0] for gpu in (whole, fifth)] == [1, 2]
    assert [waves(small, gpu)[0] for gpu in (whole, fifth)] == [1, 3]
