from __future__ import annotations

from typing import Any

from benchmarks.bench_end_to_end import slower_operators
from benchmarks.by_operator import Ledger, Watch, node_key, runs_of


def node(kind: str, inputs: list[list[int]], output: list[int], at: int) -> dict[str, Any]:
    return {
        "cat": "Node",
        "name": f"{kind}_kernel_time",
        "ts": at,
        "dur": 1000,
        "args": {
            "op_name": kind,
            "input_type_shape": [{"float": shape} for shape in inputs],
            "output_type_shape": [{"float": output}],
        },
    }


def test_a_convolution_is_the_same_in_each_layout() -> None:
    channels_first = node("Conv", [[1, 64, 56, 56], [128, 64, 3, 3]], [1, 128, 56, 56], 0)
    watch = Watch({"fused_conv2d_relu": 576})
    watch.note("fused_conv2d_relu", 0.5, [(1, 58, 58, 64), (8, 3, 3, 64, 16), (1, 56, 56, 128)])
    watch.note("winograd_input", 0.1, [(1, 56, 56, 64), (16, 784, 64)])
    watch.note("winograd_matmul", 0.2, [(16, 784, 64), (16, 64, 128), (16, 784, 128)])
    watch.note("winograd_output_relu", 0.1, [(16, 784, 128), (1, 56, 56, 128)])
    watch.note("vm.builtin.alloc", 9.0, [(1,)])

    direct, winograd = watch.entries
    assert direct[0] == winograd[0] == node_key(channels_first["args"])
    assert abs(winograd[2] - 0.4) < 1e-9


def test_a_product_is_told_by_its_rows() -> None:
    assert node_key(node("FusedMatMul", [[128, 768], [768, 3072]], [128, 3072], 0)["args"]) == (
        128 * 3072,
        768,
    )
    assert node_key(node("Softmax", [[12, 128]], [12, 128], 0)["args"]) == (0, 1)


def test_nodes_belong_to_the_run_that_ends_after_them() -> None:
    run = {"cat": "Session", "name": "model_run", "ts": 0, "dur": 5000}
    events = [
        node("Softmax", [[1]], [1], 100),
        run,
        node("Softmax", [[1]], [1], 7000),
        node("Softmax", [[1]], [1], 8001),
        {**run, "ts": 6500},
    ]

    assert [len(entries) for entries in runs_of(events)] == [1, 2]


def test_medians_are_of_whole_runs() -> None:
    ledger = Ledger()
    for seconds in (1.0, 2.0, 9.0):
        ledger.add([((8, 2), "conv", seconds / 2), ((8, 2), "conv", seconds / 2)])

    assert ledger.medians() == {(8, 2): 2.0}
    assert ledger.calls == {(8, 2): 2}


def test_what_loses_is_named_with_its_rate() -> None:
    def row(ours: float, theirs: float, products: int = 500) -> dict[str, Any]:
        return {
            "elements": 10**6,
            "products": products,
            "tune-farm": {"name": "conv2d", "calls": 1, "seconds": ours},
            "onnxruntime": {"name": "Conv", "calls": 1, "seconds": theirs},
        }

    (note,) = slower_operators("resnet50", [row(0.02, 0.01), row(0.01, 0.02), row(0.0, 0.1)])

    assert "slower than onnxruntime's are 1 of 2" in note
    assert "20.00 ms against 10.00 ms (50 against 100 GFLOP/s" in note
