"""Three kernels, bound by arithmetic, memory and L2, timed again and again: what is drift here?

Their first readings are also the ceilings that the law is given.
"""

from __future__ import annotations

import statistics

from benchmarks.gpu.lab import Earlier, Findings, Lab, seconds_of
from benchmarks.gpu.launches import sentinels

_ROUNDS = 24
_PAUSE_SECONDS = 0.5


def run(lab: Lab, earlier: Earlier) -> Findings:
    """Read all three, pause, and so on."""
    launches = sentinels(lab.code, lab.device.sm_count)
    before = earlier["sentinels"].results if "sentinels" in earlier else {}
    readings: dict[str, list[float]] = {name: [] for name in launches}
    times = []
    begin = lab.now()
    with lab.alone("sentinels") as client:
        for _ in range(_ROUNDS if not before else _ROUNDS // 4):
            times.append(lab.now() - begin)
            for name, launch in launches.items():
                readings[name].append(seconds_of(client, launch, repeats=3))
            lab.pause(_PAUSE_SECONDS)
    middle = {name: statistics.median(values) for name, values in readings.items()}
    drift = {
        name: max(abs(value / middle[name] - 1) for value in values)
        for name, values in readings.items()
    }
    results = {f"{name}_seconds": middle[name] for name in launches}
    results |= {f"{name}_drift": drift[name] for name in launches}
    tiles = {name: launch.tiles for name, launch in launches.items()}
    arithmetic = tiles["arithmetic"]
    results |= {
        "flops_per_second": arithmetic["flops"] * arithmetic["blocks"] / middle["arithmetic"],
        "dram_bytes_per_second": tiles["memory"]["unique_bytes"] / middle["memory"],
        "l2_bytes_per_second": tiles["l2"]["global_bytes"] * tiles["l2"]["blocks"] / middle["l2"],
    }
    if before:
        for name in launches:
            results[f"{name}_since_start"] = middle[name] / before[f"{name}_seconds"] - 1
    worst = max(drift, key=lambda name: drift[name])
    return Findings(
        says=(
            f"{results['flops_per_second'] / 1e12:.1f} TFLOP/s, "
            f"{results['dram_bytes_per_second'] / 1e12:.2f} TB/s from memory, "
            f"{results['l2_bytes_per_second'] / 1e12:.2f} TB/s from L2; "
            f"furthest from its median: {worst}, {drift[worst]:.1%}"
        ),
        results=results,
        rows=[
            {"at_seconds": at, **{f"{name}_seconds": readings[name][place] for name in readings}}
            for place, at in enumerate(times)
        ],
    )
