"""The packed form is chosen where the tile predictor says that it runs faster."""

from __future__ import annotations

import pytest
import tvm

from tests.sharding.test_packing import small_network
from tune_farm.client.devices.cpu_core import cpu_core
from tune_farm.server.form_choice import is_faster
from tune_farm.sharding.extract import extract
from tune_farm.sharding.layout import Layout
from tune_farm.sharding.lower import lower
from tune_farm.tuner.types import Task

Forms = dict[Layout, tuple[Task, ...]]


@pytest.fixture(scope="module")
def forms() -> Forms:
    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    loaded = small_network()
    return {layout: extract(lower(loaded, target, layout), target).tasks for layout in Layout}


def test_convolutions_of_14_pixels_want_their_channels_last(forms: Forms) -> None:
    # Rows of 14 do not fill vectors of 4 or 8; 32 and 128 channels do.
    assert is_faster(forms[Layout.PACKED], forms[Layout.GIVEN], cpu_core(1))
    assert not is_faster(forms[Layout.GIVEN], forms[Layout.PACKED], cpu_core(1))


def test_equal_forms_stay_as_given(forms: Forms) -> None:
    assert not is_faster(forms[Layout.GIVEN], forms[Layout.GIVEN], cpu_core(1))


def test_a_tie_goes_to_the_first(forms: Forms) -> None:
    given, packed = forms[Layout.GIVEN], forms[Layout.PACKED]
    assert is_faster(given, packed, cpu_core(1), tie=100.0)
