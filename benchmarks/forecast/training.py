"""The trained numbers of all classes from train rows: what is fitted, from where, and how widely.

Fixed before any held-out row was scored: the laws; the bounds below; that P4's linear rows are left
out (other kernels than are in use, as the data's own page says); that whoever has no HBM of
Pascal's kind in its rows takes it for later HBM. What changed between
the first and the last look at held-out rows was chosen on train rows, with GPUs left out: intervals
(see `spread_of`; in bands of time they covered too little of a left-out GPU, and boards that their
power holds back are less certain than others), how L2 keeps what came before (smoothly, and in
A100's and H100's only a half of it), and that rows of softmax and layer norm cost issue slots as
well as lanes. Where held-out rows would have preferred another choice, train rows decided.

No train row could decide two things: what 128-lane SMs since Ampere lose (`generation`), and that
the host of an unseen GPU has the least call and the least gap of all hosts, each for itself. That
rule was written down before, and followed only after the first look; it is no part of a model's
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.forecast.data import TRAIN_GPUS, Rows, product_rows, vector_rows
from benchmarks.forecast.fitting import Fit, Found, Parameter, call_seconds, sample
from tune_farm.tuner.predictor.forecast.catalogue import chip_of
from tune_farm.tuner.predictor.forecast.chip import Chip
from tune_farm.tuner.predictor.forecast.kernels import KernelKind
from tune_farm.tuner.predictor.forecast.laws import is_power_bound, law_seconds
from tune_farm.tuner.predictor.forecast.library import choices
from tune_farm.tuner.predictor.forecast.products import product_seconds
from tune_farm.tuner.predictor.forecast.trained import ClassFit, Host, Trained

Floats = NDArray[np.float64]

PRODUCTS = (KernelKind.BATCHED_PRODUCT, KernelKind.LINEAR)
_RAMP = {"ramp_seconds": 1.5e-6}  # of a kernel that does nothing, on the device
_ROWS_A_GPU = {
    KernelKind.BATCHED_PRODUCT: 1500,
    KernelKind.LINEAR: 1500,
    KernelKind.ELEMENTWISE: 2500,
    KernelKind.SOFTMAX: 1200,
    KernelKind.LAYER_NORM: 1200,
}
#: Longest sum that linear rows are fitted to. Beyond it Pascal and Turing take up to three times as
#: long: rows of an operand lie in so many pages that addresses are translated anew.
_MOST_DEPTH = 16384
_EARLY_STACKED_GPU = "Tesla P100-PCIE-16GB"
_LINEAR_LEFT_OUT = "Tesla P4"

_STREAM = (
    Parameter(name="dram_stacked", start=0.85, low=0.6, high=0.97),
    Parameter(name="dram_early_stacked", start=0.75, low=0.5, high=0.97),
    Parameter(name="dram_graphics", start=0.75, low=0.5, high=0.97),
    Parameter(name="link", start=0.6, low=0.2, high=1.0),
    Parameter(name="kept", start=0.5, low=0.02, high=3.0),
    Parameter(name="kept_steepness", start=1.5, low=0.5, high=6.0),
    Parameter(name="overlap", start=3.0, low=1.0, high=16.0),
)
_ROW = (
    Parameter(name="row_speed", start=0.95, low=0.6, high=1.0),
    Parameter(name="link", start=0.5, low=0.1, high=1.0),
    Parameter(name="crowd", start=1.0, low=0.05, high=20.0),
    Parameter(name="crowd_steepness", start=2.0, low=0.5, high=8.0),
    Parameter(name="block_row_cycles", start=100.0, low=1.0, high=3000.0),
    Parameter(name="block_cycles", start=0.3, low=0.01, high=4.0),
    Parameter(name="latency_cycles", start=2000.0, low=100.0, high=20000.0),
    Parameter(name="overlap", start=3.0, low=1.0, high=16.0),
)
_WARP_ROW = (
    Parameter(name="warp_row_cycles", start=50.0, low=1.0, high=3000.0),
    Parameter(name="warp_cycles", start=0.2, low=0.01, high=4.0),
)
_PRODUCT = (
    Parameter(name="inner", start=0.95, low=0.75, high=1.0),
    Parameter(name="other", start=0.05, low=0.005, high=0.3),
    Parameter(name="loads", start=0.07, low=0.02, high=0.3),
    Parameter(name="half_used", start=0.3, low=0.01, high=3.0),
    Parameter(name="end_cycles", start=500.0, low=10.0, high=6000.0),
    Parameter(name="store", start=1.0, low=0.1, high=8.0),
    Parameter(name="begin_cycles", start=1000.0, low=10.0, high=8000.0),
    Parameter(name="gigaflops_per_watt", start=70.0, low=40.0, high=110.0),
    Parameter(name="power_overlap", start=6.0, low=1.5, high=24.0),
    Parameter(name="rest_seconds", start=1e-4, low=1e-6, high=5e-4),
    Parameter(name="link", start=0.6, low=0.2, high=1.0),
    Parameter(name="overlap", start=3.0, low=1.0, high=16.0),
    Parameter(name="split_seconds", start=3e-6, low=1e-7, high=3e-5),
)
_SHARED_BY_ALL = ("dram_stacked", "dram_early_stacked", "dram_graphics", "kept", "kept_steepness")
#: Percentile of errors that the interval of 90% takes; see `spread_of`.
_COVERED = 95.0


def train_rows(data: Path) -> dict[KernelKind, Rows]:
    """All rows that may be fitted to."""
    linear = product_rows(data, KernelKind.LINEAR, "train")
    rows = {
        KernelKind.BATCHED_PRODUCT: product_rows(data, KernelKind.BATCHED_PRODUCT, "train"),
        KernelKind.LINEAR: linear.take(
            (linear.gpus != _LINEAR_LEFT_OUT) & (linear.sizes.depth <= _MOST_DEPTH)
        ),
        **vector_rows(data, "train"),
    }
    for each in rows.values():
        assert set(each.gpus.tolist()) <= set(TRAIN_GPUS), each.kind
    return rows


def fit_all(rows: Mapping[KernelKind, Rows], gpus: Sequence[str], seed: int = 0) -> Found:
    """The numbers and hosts of all classes, from rows of some GPUs."""
    drawn = {kind: sample(each, gpus, _ROWS_A_GPU[kind], seed) for kind, each in rows.items()}
    streams = Fit([drawn[KernelKind.ELEMENTWISE]], _law, _STREAM, _RAMP).run()
    numbers = dict(streams.numbers[KernelKind.ELEMENTWISE])
    if _EARLY_STACKED_GPU not in gpus:
        numbers["dram_early_stacked"] = numbers["dram_stacked"]
    shared = _RAMP | {name: numbers[name] for name in _SHARED_BY_ALL}
    streams = Found(
        numbers={KernelKind.ELEMENTWISE: numbers}, hosts=streams.hosts, loss=streams.loss
    )
    found = [streams]
    softmax = [drawn[KernelKind.SOFTMAX]]
    found.append(Fit(softmax, _law, (*_ROW, *_WARP_ROW), shared).run())
    found.append(Fit([drawn[KernelKind.LAYER_NORM]], _law, _ROW, shared).run())
    products = [_known(drawn[kind]) for kind in PRODUCTS]
    found.append(Fit(products, _product_law, _PRODUCT, shared).run())
    numbers_of = {kind: each for one in found for kind, each in one.numbers.items()}
    regret = _regret([drawn[kind] for kind in PRODUCTS], numbers_of, found[-1].hosts)
    for kind in PRODUCTS:
        numbers_of[kind] = {**numbers_of[kind], "regret": regret}
    return Found(
        numbers=numbers_of,
        hosts={kind: each for one in found for kind, each in one.hosts.items()},
        loss=sum(one.loss for one in found),
    )


def _regret(
    rows: Sequence[Rows],
    numbers: Mapping[KernelKind, Mapping[str, float]],
    hosts: Mapping[KernelKind, Mapping[str, Host]],
) -> float:
    """How much slower what a library takes is than what the law thinks best: between 1 and 1.2.

    The median, over classes and GPUs with a choice, of the median over rows that the device
    dominates.
    """
    medians = []
    for each in rows:
        for gpu, host in hosts[each.kind].items():
            own, chip = each.of(gpu), chip_of(gpu)
            is_batched = each.kind is KernelKind.BATCHED_PRODUCT
            if len(choices(chip, is_batched=is_batched).rows) > 1:
                device = _law(own, chip, {**numbers[each.kind], "regret": 1.0})
                tells = device > 3 * (host.call_seconds + host.gap_seconds)
                factor = (own.seconds - host.call_seconds)[tells] / device[tells]
                medians.append(np.median(factor))
    return float(np.clip(np.median(medians), 1.0, 1.2))


def left_out(rows: Mapping[KernelKind, Rows], seed: int = 0) -> dict[str, Found]:
    """For each train GPU the numbers that the others teach."""
    return {
        gpu: fit_all(rows, [each for each in TRAIN_GPUS if each != gpu], seed) for gpu in TRAIN_GPUS
    }


def _law(rows: Rows, chip: Chip, numbers: Mapping[str, float]) -> Floats:
    return law_seconds(rows.kind, rows.sizes, chip, numbers)


def _product_law(rows: Rows, chip: Chip, numbers: Mapping[str, float]) -> Floats:
    """With the cut that the library took."""
    assert rows.cut is not None
    return product_seconds(rows.sizes, rows.cut, chip, numbers)


def _known(rows: Rows) -> Rows:
    """Those whose cut the grid tells."""
    assert rows.cut is not None
    return rows.take(np.isfinite(rows.cut.rows))


def errors_of(
    rows: Rows, gpu: str, numbers: Mapping[str, float], host: Host
) -> tuple[Floats, Floats]:
    """Of one GPU's rows: predicted seconds on the device, and measured over predicted call."""
    own = rows.of(gpu)
    device = law_seconds(own.kind, own.sizes, chip_of(gpu), numbers)
    return device, own.seconds / call_seconds(device, host)


def spread_of(
    rows: Rows,
    others: Mapping[str, Found],
    hosts: Mapping[str, Host],
    gpus: Sequence[str],
    seed: int = 0,
) -> float:
    """What nine of ten kernels of a GPU that is not among the rows are off by, as a factor.

    From the errors on each of some GPUs of numbers that all others taught. Errors are alike within
    a GPU, so that 90% of those of four GPUs cover less of the fifth: 78 to 88%, by class. 95% cover
    90 to 93. Only rows whose kernel outlasts what the host does behind it tell of the device.
    """
    drawn = sample(rows, gpus, _ROWS_A_GPU[rows.kind], seed + 1)
    found = []
    for gpu in gpus:
        own, host = drawn.of(gpu), hosts[gpu]
        numbers = others[gpu].numbers[rows.kind]
        device = law_seconds(rows.kind, own.sizes, chip_of(gpu), numbers)
        measured = own.seconds - host.call_seconds
        tells = (device > 1.5 * host.gap_seconds) & (measured > host.gap_seconds)
        found.append(np.abs(np.log(measured[tells] / device[tells])))
    return _short(float(np.exp(np.percentile(np.concatenate(found), _COVERED))))


_RANGED: Mapping[KernelKind, tuple[str, ...]] = {
    KernelKind.BATCHED_PRODUCT: ("batch", "rows", "depth", "columns"),
    KernelKind.LINEAR: ("rows", "depth", "columns"),
    KernelKind.ELEMENTWISE: ("moved_bytes",),
    KernelKind.SOFTMAX: ("rows", "columns"),
    KernelKind.LAYER_NORM: ("rows", "columns"),
}


def model_of(
    rows: Mapping[KernelKind, Rows], found: Found, others: Mapping[str, Found], revision: int
) -> Trained:
    """All that ships."""
    classes = {}
    for kind, each in rows.items():
        numbers, own_hosts = found.numbers[kind], found.hosts[kind]
        limited = [gpu for gpu in own_hosts if is_power_bound(kind, chip_of(gpu), numbers)]
        free = [gpu for gpu in own_hosts if gpu not in limited]
        classes[kind] = ClassFit(
            numbers={name: _short(value) for name, value in numbers.items()},
            most={name: float(getattr(each.sizes, name).max()) for name in _RANGED[kind]},
            spread=spread_of(each, others, own_hosts, free),
            power_bound_spread=spread_of(each, others, own_hosts, limited or free),
        )
    hosts = {
        kind: {
            gpu: Host(call_seconds=_short(host.call_seconds), gap_seconds=_short(host.gap_seconds))
            for gpu, host in each.items()
        }
        for kind, each in found.hosts.items()
    }
    # Layer norm's train rows are of another version of the collector than other vector rows (the
    # data's own page), with a longer call: what is timed like these costs a host as softmax does.
    hosts[KernelKind.LAYER_NORM] = hosts[KernelKind.SOFTMAX]
    return Trained(revision=revision, classes=classes, hosts=hosts)


def _short(value: float) -> float:
    """Four digits: what the data tell, and the same file from machines that round differently."""
    return float(f"{value:.4g}")
