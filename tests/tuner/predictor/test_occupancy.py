"""Each limit of an SM, met first, decides how many blocks it holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tuner.predictor.machines import GPU, gpu_tiles
from tune_farm.tuner.predictor.occupancy import resident_blocks

FREE = {"shared_bytes": 0.0, "registers": 16.0}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"threads": 32.0}, 16),  # block slots
        ({"threads": 512.0}, 3),  # threads
        ({"threads": 500.0}, 3),  # a warp that is not full takes its place
        ({"threads": 256.0, "registers": 100.0}, 2),  # 104 are handed to each of 256 threads
        ({"threads": 128.0, "shared_bytes": 32768.0}, 3),  # and 1 KiB of the system's each
        ({"threads": 256.0, "registers": 400.0}, 1),  # what is over 255 is spilled
    ],
)
def test_the_first_limit_decides(changes: dict[str, float], expected: int) -> None:
    assert resident_blocks(gpu_tiles(**(FREE | changes)), GPU)[0] == expected


def test_what_cannot_be_launched_is_not_resident() -> None:
    assert resident_blocks(gpu_tiles(threads=1056.0, **FREE), GPU)[0] == 0
    static = replace(GPU, max_block_shared_bytes=48 << 10)
    assert resident_blocks(gpu_tiles(shared_bytes=50e3), static)[0] == 0
