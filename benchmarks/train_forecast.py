"""Makes the numbers that forecasts ship with, from the train rows of NeuSight's data.

    python benchmarks/train_forecast.py --data DIR [--out FILE]

Prints, for each class, what the numbers of the other GPUs are off by on each GPU (with its own
host, which is not what a law tells). The same rows give the same file. Nothing is read but
`kernels_train_*`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[0:0] = [] if str(ROOT) in sys.path else [str(ROOT)]  # also as a plain script

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from benchmarks.forecast.data import TRAIN_GPUS  # noqa: E402
from benchmarks.forecast.scoring import percent  # noqa: E402
from benchmarks.forecast.training import (  # noqa: E402
    errors_of,
    fit_all,
    left_out,
    model_of,
    train_rows,
)
from tune_farm.tuner.predictor.forecast.trained import FILE_NAME, written  # noqa: E402

REVISION = 1
OUT = ROOT / "tuner" / "predictor" / "forecast" / FILE_NAME


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE")
    arguments = parser.parse_args()
    rows = train_rows(arguments.data)
    found = fit_all(rows, TRAIN_GPUS)
    others = left_out(rows)
    table = Table(title="error on a GPU of numbers that the other GPUs taught, % of measured")
    for column in ("class", "gpu", "n", "left out", "p90", "with it", "rows above 0.1 ms"):
        table.add_column(column)
    for kind, each in rows.items():
        for gpu, host in found.hosts[kind].items():
            _, without = errors_of(each, gpu, others[gpu].numbers[kind], host)
            device, within = errors_of(each, gpu, found.numbers[kind], host)
            off, fitted = percent(1 / without, np.ones(1)), percent(1 / within, np.ones(1))
            long = off[device > 1e-4]
            cells = (off.mean(), np.percentile(off, 90), fitted.mean(), long.mean())
            table.add_row(kind.value, gpu, str(len(off)), *(f"{value:.1f}" for value in cells))
    Console(width=140).print(table)
    for kind, numbers in found.numbers.items():
        print(kind.value, {name: float(f"{value:.4g}") for name, value in numbers.items()})
    arguments.out.write_text(written(model_of(rows, found, others, REVISION)))
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
