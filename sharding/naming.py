"""Names and kinds of operators, for people: read from the names that the compiler gives."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

#: The first pattern that a function's name contains decides; so the order is by importance: what
#: a schedule has to care about most comes first.
_KINDS: tuple[tuple[str, str], ...] = (
    (r"winograd_(?:input|output)", "winograd"),  # its product is a matmul
    (r"conv\dd_transpose", "conv_transpose"),
    (r"conv1d", "conv1d"),
    (r"conv2d", "conv2d"),
    (r"conv3d", "conv3d"),
    (r"attention", "attention"),
    (r"matmul|dense|gemm", "matmul"),
    (r"softmax", "softmax"),
    (r"layer_norm", "layer_norm"),
    (r"(batch|group|instance|rms)_norm", "norm"),
    (r"pool\d?d?", "pool"),
    (r"resize\dd|grid_sample", "resize"),
    (r"take|gather|gather_elements|gather_nd", "gather"),
    (r"scatter\w*", "scatter"),
    (r"cumsum|cumprod|sort|argsort|topk", "scan"),
    (r"sum|mean|max|min|prod|variance|std|argmax|argmin|logsumexp", "reduce"),
    (r"transpose|concatenate|split|strided_slice|pad|tile|flip|repeat|layout_transform", "layout"),
    (r"reshape|squeeze|expand_dims|flatten|broadcast_to", "layout"),
)
_COMPILED_KINDS = tuple(
    (re.compile(rf"(?:^|_)(?:{pattern})\d*(?:_|$)"), kind) for pattern, kind in _KINDS
)
_NAME_LENGTH = 40


def readable_name(function_name: str) -> str:
    """The operators that a function fuses, without the compiler's counters: `conv2d_add_relu`."""
    words = re.sub(r"^fused_", "", function_name).split("_")
    stripped = [re.sub(r"(?<=[a-z])\d+$", "", word) for word in words]
    kept = [word for word in stripped if word]
    name = "_".join(kept)
    while len(name) > _NAME_LENGTH and len(kept) > 1:
        kept.pop()
        name = "_".join(kept)
    return re.sub(r"[^A-Za-z0-9_]", "", name) or "operator"


def kind_of(function_name: str, *, has_reduction: bool) -> str:
    """The main operator of a function, by its name."""
    name = re.sub(r"^fused_", "", function_name)
    for pattern, kind in _COMPILED_KINDS:
        if pattern.search(name):
            return kind
    return "reduce" if has_reduction else "elementwise"


def unique_names(names: Iterable[str]) -> list[str]:
    """The same names, those seen before with `-2`, `-3`, … appended."""
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return unique


def shape_text(shape: Sequence[int]) -> str:
    """A shape as part of a name: `1x256x14x14`."""
    return "x".join(map(str, shape)) or "scalar"
