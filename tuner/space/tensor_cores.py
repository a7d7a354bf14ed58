"""Sketches for a GPU's matrix units: TVM's rule, with the intrinsics that a task can use.

Each warp multiplies fragments of 16 x 16 x 16, half-precision operands into float32 sums (WMMA).
TVM brings the operands of matrix products and convolutions, whatever their layout, into the two
matrices that the intrinsic takes, and pads them to whole fragments.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from tune_farm.tuner.space.intrinsics import register_intrinsics

#: The first architecture whose tensor cores take bfloat16, too.
_FIRST_ARCHITECTURE = 80
#: What TVM tiles for them: five parts of each spatial loop, three of the sum's, the parts bound.
_STRUCTURE = "SSSRRSRS"
_BINDINGS = ("blockIdx.y", "blockIdx.x", "threadIdx.y")
#: Fragments along one loop that a warp runs through innermost, at most (TVM's own choice).
_MOST_INNERMOST = 4
#: Elements of a vector load into shared memory.
_FETCHES = (1, 2, 4, 8)
#: Rows of a tile in shared memory start 8 elements after a multiple of 32: sixteen rows of a
#: fragment fall on different banks then. TVM does so for float16 alone.
_ALIGNMENT = (0, -2, 32, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The intrinsics of one kind of product."""

    dtype: str  # of the operands
    transposed: bool  # whether the second operand's rows are the output's columns

    @property
    def intrinsics(self) -> dict[str, str]:
        """Names by what TVM's rule calls them."""
        short = {"float16": "f16", "bfloat16": "bf16"}[self.dtype]
        end = "_trans" if self.transposed else ""
        return {
            "init": "wmma_fill_16x16x16_f32",
            "load_a": f"wmma_load_16x16x16_{short}_a_shared_dyn",
            "load_b": f"wmma_load_16x16x16_{short}_b{end}_shared_dyn",
            "compute": f"wmma_sync_16x16x16_{short}{short}f32{end}",
            # Sums are staged in memory of a fixed size: in TVM's one dynamic allocation they would
            # share bytes with operands of another type, which its lowering refuses.
            "store": "wmma_store_16x16x16_f32_shared",
        }


def groups_for(module: Any, target: Any) -> tuple[Group, ...]:
    """What a module's products can use on a TVM target; none where none of them can."""
    if not _has_tensor_cores(target):
        return ()
    return tuple(
        Group(dtype=dtype, transposed=transposed)
        for dtype in sorted(_multiplied(module))
        for transposed in (False, True)
    )


def tensor_core_rules(group: Group) -> list[Any]:
    """TVM's schedule rules for a CUDA target, its products on tensor cores; registers those."""
    from tvm.s_tir.meta_schedule.schedule_rule import (
        MultiLevelTilingTensorCore,
        ReuseType,
        ScheduleRule,
    )

    register_intrinsics(group.intrinsics.values())
    rule = MultiLevelTilingTensorCore(
        intrin_groups=[group.intrinsics],
        structure=_STRUCTURE,
        tile_binds=list(_BINDINGS),
        max_innermost_factor=_MOST_INNERMOST,
        vector_load_lens=list(_FETCHES),
        reuse_read=ReuseType(req="must", levels=[4], scope="shared.dyn"),
        reuse_write=ReuseType(req="must", levels=[2], scope="shared"),
        use_software_pipeline=False,
    )
    return [rule, *ScheduleRule.create("cuda")]


def uses_tensor_cores(trace_json: str) -> bool:
    """Whether a sketch multiplies on them; the rule leaves alone what does not fit."""
    return "meta_schedule.auto_tensorize" in trace_json


def with_padded_rows(trace_json: str) -> str:
    """The same trace, its tiles in shared memory laid out for reads without bank conflicts."""
    instructions, decided = json.loads(trace_json)
    aligned = {inputs[0] for kind, inputs, _, _ in instructions if kind == "StorageAlign"}
    copies = [
        outputs[0]
        for kind, _, attributes, outputs in instructions
        if kind == "CacheRead" and attributes[1].startswith("shared")
    ]
    instructions += [
        ["StorageAlign", [copy], list(_ALIGNMENT), []] for copy in copies if copy not in aligned
    ]
    return json.dumps([instructions, decided], separators=(",", ":"))


def _has_tensor_cores(target: Any) -> bool:
    if str(target.kind.name) != "cuda":
        return False
    number = re.match(r"sm_(\d+)", str(target.attrs["arch"]))
    return number is not None and int(number.group(1)) >= _FIRST_ARCHITECTURE


def _multiplied(module: Any) -> set[str]:
    """Types of 16 bits that some block sums products of."""
    import tvm_ffi
    from tvm import s_tir, tirx

    found: set[str] = set()

    def visit(node: Any) -> None:
        if not any(axis.iter_type == tirx.IterVar.CommReduce for axis in node.iter_vars):
            return
        types = [str(region.source.ty.dtype) for region in node.reads]
        written = {str(region.source.ty.dtype) for region in node.writes}
        if len(types) >= 2 and len(set(types)) == 1 and written == {"float32"}:
            found.update(set(types) & {"float16", "bfloat16"})

    tvm_ffi.structural_walk(module["main"].body, (s_tir.SBlock, visit), order="post")
    return found
