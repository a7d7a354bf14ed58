"""What a scheduled module really launches, read from it after all of TVM's lowering."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel's launch."""

    blocks: int
    threads: int  # of a block
    shared_bytes: int  # of a block, static and dynamic


def launches_of(module: Any, target: Any) -> list[Launch]:
    """Lower a scheduled IRModule for a CUDA target; its kernels in the order of their launch."""
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock
    from tvm.tirx.build import split_host_device_mods

    pipeline = tvm.tirx.get_default_tir_pipeline(target)[0]
    module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
    module = tvm.tirx.transform.BindTarget(target.with_host("llvm"))(module)
    with target:
        _, by_target = split_host_device_mods(pipeline(module))
    kernels = {
        str(variable.name_hint): function
        for device in by_target.values()
        for variable, function in device.functions.items()
    }
    return [_launch(kernels[name].body) for name in sorted(kernels, key=_place)]


def _place(name: str) -> int:
    """Kernels are called main_kernel, main_kernel_1, … as they are launched."""
    number = re.search(r"_kernel_(\d+)$", name)
    return int(number.group(1)) if number else 0


def _launch(body: Any) -> Launch:
    import tvm
    import tvm_ffi
    from tvm import tirx

    extents: dict[str, int] = {}
    shared: list[int] = []

    def attribute(node: Any) -> None:
        if node.attr_key == "thread_extent":
            extents[str(node.node.thread_tag)] = int(node.value)

    def allocation(node: Any) -> None:
        kind = node.buffer.ty
        if str(kind.storage_scope).startswith("shared"):
            element = tvm.DataType(str(kind.dtype))
            size = math.prod(int(each) for each in kind.shape)
            shared.append(size * max(1, element.bits * element.lanes // 8))

    tvm_ffi.structural_walk(body, [(tirx.AttrStmt, attribute), (tirx.AllocBuffer, allocation)])
    return Launch(
        blocks=math.prod(n for tag, n in extents.items() if tag.startswith("blockIdx")),
        threads=math.prod(n for tag, n in extents.items() if tag.startswith("threadIdx")),
        shared_bytes=sum(shared),
    )
