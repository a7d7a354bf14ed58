"""What is not torn gives the right numbers; what is, TVM accepts all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tests.tuner.operators import task_of
from tune_farm.sharding.panels import find_panel, pack_array, pack_function
from tune_farm.tuner.space.design import DesignSpace
from tune_farm.tuner.space.torn import is_torn
from tune_farm.tuner.space.traces import replay

ROWS, COLUMNS, STEPS = 8, 128, 64


def product_and_relu() -> Any:
    rows, columns, steps = (tirx.IntImm("int64", each) for each in (ROWS, COLUMNS, STEPS))
    left = te.placeholder((rows, steps), "float32", name="A")
    right = te.placeholder((steps, columns), "float32", name="B")
    k = te.reduce_axis((tirx.IntImm("int64", 0), steps), name="k")
    product = te.compute(
        (rows, columns), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), name="C"
    )
    relu = te.compute(
        (rows, columns), lambda i, j: te.max(product[i, j], tirx.const(0.0, "float32")), name="D"
    )
    return te.create_prim_func([left, right, relu])


@pytest.mark.slow
def test_drafts_that_are_not_torn_are_right() -> None:
    function = product_and_relu()
    panel = find_panel(function, 1)
    assert panel is not None
    assert panel.width == 16
    task = task_of(pack_function(function, panel))
    module = tvm.ir.load_json(task.module_json)
    rng = np.random.default_rng(3)
    left = rng.standard_normal((ROWS, STEPS)).astype(np.float32)
    right = rng.standard_normal((STEPS, COLUMNS)).astype(np.float32)
    expected = np.maximum(left @ right, 0.0)
    space = DesignSpace(task, seed=1)
    checked = torn = 0
    for index, plot in enumerate(space.plots):
        assert plot.nest is not None
        genes = plot.sketch.draw(60, rng)
        flags = is_torn(plot.nest, genes)
        torn += int(flags.sum())
        for row in genes[~flags][:6]:
            candidate = space.realize(index, row)
            if candidate is None:
                continue
            library = tvm.tirx.build(replay(module, candidate.trace_json).mod, target="llvm")
            output = tvm.runtime.tensor(np.full((ROWS, COLUMNS), np.nan, np.float32))
            library["main"](
                tvm.runtime.tensor(left), tvm.runtime.tensor(pack_array(right, panel)), output
            )
            np.testing.assert_allclose(output.numpy(), expected, rtol=1e-3, atol=1e-4)
            checked += 1
    assert checked >= 10
    assert torn > 0  # the rule is there for a reason
