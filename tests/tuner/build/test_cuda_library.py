"""A binary takes the place of the source in what TVM exports; nothing else changes."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
import tvm
from tvm.runtime import _ffi_api
from tvm.tirx.build import tir_to_runtime

from benchmarks.h100 import H100_TARGET_JSON
from tests.tuner import operators
from tests.tuner.cuda_operators import cuda_task
from tune_farm.tuner.build.cuda_build import _lower, schedule_by_default
from tune_farm.tuner.build.cuda_library import with_binary


@pytest.fixture(scope="module")
def built() -> Any:
    target = tvm.target.Target(json.loads(H100_TARGET_JSON))
    module = tvm.ir.load_json(cuda_task(operators.matmul()).module_json)
    host, devices = _lower(schedule_by_default(module, target), target)
    return tir_to_runtime(host, devices, tvm.target.Target("llvm"))


@pytest.fixture(scope="module")
def source(built: Any) -> bytes:
    (device,) = built.imports
    return str(device.inspect_source()).encode()


@pytest.fixture(scope="module")
def packed(built: Any) -> bytes:
    return bytes(_ffi_api.ModulePackImportsToTensor(built).numpy().tobytes())


def text(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


def test_only_format_and_code_change(packed: bytes, source: bytes) -> None:
    changed = with_binary(packed, source, b"the binary")

    assert struct.unpack("<Q", changed[:8])[0] == len(changed) - 8
    assert changed.endswith(text(b"the binary"))
    assert text(b"cubin") in changed
    assert source not in changed
    # Signatures and launch parameters of the kernels are between the two.
    kernels = packed[packed.index(text(b"main_kernel")) : packed.index(text(source))]
    assert kernels + text(b"the binary") == changed[changed.index(text(b"main_kernel")) :]


def test_a_source_that_is_not_there_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match="not the source"):
        with_binary(packed, b"another source", b"")


@pytest.mark.parametrize("length", [12, 60])
def test_a_form_that_is_not_known_is_refused(packed: bytes, source: bytes, length: int) -> None:
    cut = struct.pack("<Q", length - 8) + packed[8:length]

    with pytest.raises(ValueError, match="end early"):
        with_binary(cut, source, b"")
    with pytest.raises(ValueError, match="length"):
        with_binary(packed[:length], source, b"")
