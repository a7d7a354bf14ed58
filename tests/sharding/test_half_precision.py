"""A model in half precision computes nearly the same, from weights of half the size."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import tvm

from benchmarks.h100 import H100_TARGET_JSON
from tests.sharding.test_lower import Models, random_inputs, run_compiled
from tests.sharding.test_packing import small_network
from tune_farm.sharding.extract import extract
from tune_farm.sharding.half_precision import HALF_TYPES, check_half_precision
from tune_farm.sharding.lower import lower
from tune_farm.tuner.errors import UsageError


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_products_take_it_and_sum_in_float32(dtype: str, tiny_models: Models) -> None:
    target = tvm.target.Target(H100_TARGET_JSON)
    lowered = lower(tiny_models["bert", False], target, dtype=dtype)

    products = [task for task in extract(lowered, target).tasks if task.kind == "matmul"]
    assert products
    for task in products:
        assert [each.dtype for each in task.arguments[:2]] == [dtype, dtype]
        assert '"float32"' in task.module_json  # sums
    main = lowered.module["main"]
    assert Counter(str(each.ty.dtype) for each in main.params)[dtype] == 2 * 6 + 1  # and a pooler
    assert {str(each.dtype) for each in main.ret_ty.fields} == {"float32"}
    assert {each.dtype for each in lowered.inputs} == {"int64"}


def test_it_gives_nearly_the_same_numbers(target: tvm.target.Target) -> None:
    given = lower(small_network(), target)
    half = lower(small_network(), target, dtype="float16")
    inputs = random_inputs(given)
    assert half.inputs == given.inputs
    assert sum(each.nbytes for each in half.weights) < 0.6 * sum(e.nbytes for e in given.weights)

    right, actual = (run_compiled(lowered, inputs, target) for lowered in (given, half))

    for output, expected in zip(actual, right, strict=True):
        assert output.dtype == np.float32
        error = np.abs(output - expected).max() / np.abs(expected).max()
        assert 0 < error < 4 * 2.0**-10  # operands alone are rounded to float16


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_weights_do_not_change_the_tasks(dtype: str, tiny_models: Models) -> None:
    target = tvm.target.Target(H100_TARGET_JSON)
    found = [
        Counter(
            {
                task.id: task.weight
                for task in extract(
                    lower(tiny_models["bert", flag], target, dtype=dtype), target
                ).tasks
            }
        )
        for flag in (True, False)
    ]
    assert found[0] == found[1]


def test_a_cpu_is_refused_with_the_remedy(target: tvm.target.Target) -> None:
    with pytest.raises(UsageError, match="float16 is for GPUs") as caught:
        check_half_precision("float16", target)
    assert "--target" in str(caught.value.remedy)

    check_half_precision("float16", tvm.target.Target(H100_TARGET_JSON))
