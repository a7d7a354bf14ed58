"""The forecast's benchmark: numbers that a fit finds again, rows as read, rules for nodes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.forecast.data import TRAIN_GPUS, Rows, product_rows, read
from benchmarks.forecast.fitting import Fit, Parameter, call_seconds, sample
from benchmarks.forecast.nodes import kernels_of, timed_nodes
from benchmarks.forecast.scoring import score_nodes
from benchmarks.forecast.training import train_rows
from tune_farm.tuner.predictor.forecast.catalogue import chip_of
from tune_farm.tuner.predictor.forecast.kernels import KernelKind
from tune_farm.tuner.predictor.forecast.shipped import ShippedForecaster
from tune_farm.tuner.predictor.forecast.sizes import Sizes
from tune_farm.tuner.predictor.forecast.streams import stream_seconds
from tune_farm.tuner.predictor.forecast.trained import Host

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "neusight"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs the measured kernels of NeuSight")

HEADER = (
    "device,op,B,M,N,K,tile_x,tile_y,latency_ms,grid_x,grid_y,grid_z,block_threads,kernel_id,"
    "n_launches,split"
)


def streams(gpus: tuple[str, ...], count: int, numbers: dict[str, float], host: Host) -> Rows:
    """Elementwise rows as a law would time them, without noise."""
    generator = np.random.default_rng(0)
    total = count * len(gpus)
    elements = np.exp2(generator.uniform(10, 27, total))
    ones = np.ones(total)
    sizes = Sizes(
        batch=ones,
        rows=elements,
        depth=ones,
        columns=ones,
        moved_bytes=8 * elements,
        instructions=8 * ones,
    )
    names = np.repeat(np.array(gpus), count)
    seconds = np.empty(total)
    for gpu in gpus:
        own = names == gpu
        device = stream_seconds(sizes.take(own), chip_of(gpu), numbers)
        seconds[own] = call_seconds(device, host)
    return Rows(
        kind=KernelKind.ELEMENTWISE,
        gpus=names,
        operations=np.repeat("add", total),
        sizes=sizes,
        seconds=seconds,
        cut=None,
    )


def test_a_fit_finds_the_numbers_again() -> None:
    fixed = {"ramp_seconds": 1e-6, "link": 0.5, "overlap": 3.0, "kept": 0.5, "kept_steepness": 1.5}
    truth = {**fixed, "dram_stacked": 0.78, "dram_graphics": 0.66, "dram_early_stacked": 0.9}
    host = Host(call_seconds=17e-6, gap_seconds=6e-6)
    rows = streams(("Tesla T4", "Tesla V100-PCIE-32GB"), 300, truth, host)
    wanted = ("dram_stacked", "dram_graphics", "dram_early_stacked")
    parameters = [Parameter(name=name, start=0.9, low=0.5, high=0.97) for name in wanted]

    def law(rows: Rows, chip, numbers):  # type: ignore[no-untyped-def]
        return stream_seconds(rows.sizes, chip, numbers)

    found = Fit([rows], law, parameters, fixed).run()

    numbers = found.numbers[KernelKind.ELEMENTWISE]
    assert numbers["dram_stacked"] == pytest.approx(0.78, rel=0.02)
    assert numbers["dram_graphics"] == pytest.approx(0.66, rel=0.02)
    assert numbers["dram_early_stacked"] == pytest.approx(0.9)  # nothing told of it
    for each in found.hosts[KernelKind.ELEMENTWISE].values():
        assert each.call_seconds == pytest.approx(17e-6, rel=0.05)
        assert each.gap_seconds == pytest.approx(6e-6, rel=0.15)


def test_a_sample_weighs_short_and_long_alike_and_is_drawn_again() -> None:
    truth = {"ramp_seconds": 1e-6, "link": 0.5, "overlap": 3.0, "kept": 0.5, "kept_steepness": 1.5}
    truth |= {"dram_stacked": 0.8, "dram_graphics": 0.7}
    rows = streams(("Tesla T4",), 3000, truth, Host(call_seconds=17e-6, gap_seconds=6e-6))
    drawn = sample(rows, TRAIN_GPUS, 200, seed=3)

    assert len(drawn) == 200
    assert np.median(drawn.seconds) > np.median(rows.seconds)
    assert (drawn.seconds == sample(rows, TRAIN_GPUS, 200, seed=3).seconds).all()


def write(path: Path, *lines: str) -> None:
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines) + "\n")


def test_products_are_read_with_their_cut_where_the_grid_tells_it(tmp_path: Path) -> None:
    write(
        tmp_path / "kernels_train_linear.csv.gz",
        HEADER,
        "Tesla T4,linear,1,231,1784,14288,128,64,3.316,112,4,2,128,48,1,train",
        "Tesla T4,linear,1,231,1784,14288,128,64,3.316,112,4,0,128,48,1,train",
        "Tesla T4,linear,1,231,1784,14288,128,64,0,112,4,2,128,48,1,train",
    )
    rows = product_rows(tmp_path, KernelKind.LINEAR, "train")

    assert len(rows) == 2
    assert rows.seconds[0] == pytest.approx(3.316e-3)
    assert rows.sizes.depth[0] == 1784  # N is summed over
    assert rows.cut is not None
    assert rows.cut.rows[0] == 64
    assert rows.cut.columns[0] == 128
    assert rows.cut.splits[0] == 2
    assert np.isnan(rows.cut.rows[1])


def node(
    name: str, operators: list[object], inputs: list[list[int]], prev: list[str]
) -> dict[str, str]:
    return {
        "name": name,
        "fw_ops": json.dumps(operators),
        "input_shapes": json.dumps(inputs),
        "output_shape": json.dumps(inputs[0]),
        "prev": json.dumps(prev),
    }


@pytest.mark.parametrize(
    ("name", "prev", "batch", "copies"),
    [
        ("matmul", ["permute_2", "transpose"], 8, 2),  # scores: queries, and keys transposed
        ("matmul_1", ["dropout", "permute_1"], 8, 1),  # values
        ("matmul_1", ["dropout", "permute_1"], 1, 0),  # a view will do
        ("bmm", ["view_3", "transpose_2"], 8, 0),
    ],
)
def test_matmul_copies_what_cannot_be_viewed(
    name: str, prev: list[str], batch: int, copies: int
) -> None:
    inputs = [[batch, 16, 512, 512], [batch, 16, 512, 64]]
    item = node(name, [["BMM", [batch * 16, 512, 512, 64]]], inputs, prev)

    *before, kernel = kernels_of(item)
    assert kernel.kind is KernelKind.BATCHED_PRODUCT
    assert kernel.depth == 512
    assert [each.kind for each in before] == [KernelKind.COPY] * copies
    if copies:
        assert before[-1].moved_bytes == 8 * batch * 16 * 512 * 64


def test_broadcast_operands_count_the_bytes_that_they_have() -> None:
    item = node("add_7", [["VECadd", [4096, 512]]], [[4096, 512], [1, 512]], [])
    (kernel,) = kernels_of(item)

    assert kernel.moved_bytes == 4 * (2 * 4096 * 512 + 512)
    assert kernel.operation == "add"
    assert kernels_of(node("view", [], [[4, 4]], [])) == ()


@needs_data
def test_nothing_is_fitted_to_but_train_rows() -> None:
    rows = train_rows(DATA)

    assert {gpu for each in rows.values() for gpu in each.gpus.tolist()} == set(TRAIN_GPUS)
    assert "Tesla P4" not in rows[KernelKind.LINEAR].gpus.tolist()
    assert not [each for each in read(DATA / "devices.csv") if each["role"] == "train"][5:]


@needs_data
def test_nodes_of_models_are_scored_beside_what_neusight_ships() -> None:
    nodes = list(timed_nodes(DATA))
    forecaster = ShippedForecaster(waits=True)

    for kind in (KernelKind.LINEAR, KernelKind.ELEMENTWISE, KernelKind.BATCHED_PRODUCT):
        scored = score_nodes(nodes, kind, "Tesla V100-PCIE-32GB", forecaster)
        assert scored is not None
        row = scored.row()
        assert row["n"] > 5
        assert row["ours_%"] < row["roofline_%"]
        assert row["worst_x"] < 3
