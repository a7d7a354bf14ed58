"""A whole model for a GPU becomes one library with the compiled kernels inside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relax

from benchmarks.h100 import H100_TARGET_JSON
from tune_farm.tuner.build.cuda_compile import missing_compiler
from tune_farm.tuner.build.cuda_model import build_cuda_model

pytestmark = pytest.mark.skipif(
    missing_compiler() is not None, reason=missing_compiler() or "there is one"
)


def dense_and_relu() -> Any:
    """Two operators that nobody scheduled."""
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((2, 16), "float32"))
    weight = relax.Var("weight", relax.TensorType((16, 8), "float32"))
    with builder.function("main", [data, weight]):
        with builder.dataflow():
            product = builder.emit(relax.op.nn.relu(relax.op.matmul(data, weight)))
            result = builder.emit_output(product)
        builder.emit_func_output(result)
    return builder.get()


def test_a_model_is_compiled_to_what_the_gpu_runs(tmp_path: Path) -> None:
    target = tvm.target.Target(json.loads(H100_TARGET_JSON))
    library = tmp_path / "model.so"

    build_cuda_model(dense_and_relu(), target, str(library))

    content = library.read_bytes()
    # CUDA's ELF (machine 190, EM_CUDA), and no source that would have to be compiled over there.
    elves = [place for place in range(1, len(content)) if content.startswith(b"\x7fELF", place)]
    machines = {int.from_bytes(content[place + 18 : place + 20], "little") for place in elves}
    assert 190 in machines
    assert b"__global__" not in content
    assert b"relax.VMExecutable" in content
