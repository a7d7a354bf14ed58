"""Loads one core for a part of the time, as somebody else on a shared node would.

`python -m benchmarks.contention.neighbor CORE PART SEED`: busy for spells of a few hundred
milliseconds, then away; ends with its parent.
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np

#: How long it stays when it comes, seconds.
SPELL_SECONDS = 0.4


def main() -> None:
    core, part, seed = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    os.sched_setaffinity(0, {core})
    rng = np.random.default_rng(seed)
    parent = os.getppid()
    matrix = rng.standard_normal((256, 256))
    while os.getppid() == parent:
        until = time.monotonic() + rng.exponential(SPELL_SECONDS)
        while time.monotonic() < until:
            matrix @ matrix
        time.sleep(rng.exponential(SPELL_SECONDS) * (1 - part) / part)


if __name__ == "__main__":
    main()
