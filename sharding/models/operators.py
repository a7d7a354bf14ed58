"""Which ONNX operators the compiler's importer knows."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from tvm.relax.frontend.onnx import onnx_frontend

from tune_farm.tuner.errors import UsageError

_DEFAULT_DOMAINS = ("", "ai.onnx")
#: Handled by the importer itself, outside its table.
_DIRECT = frozenset({"If", "Constant"})
#: Domains whose operators the importer has in its table under the same names.
_KNOWN_DOMAINS = (*_DEFAULT_DOMAINS, "com.microsoft", "ai.onnx.ml")


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """All nodes of a graph and of its branches."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(attribute.g)
            for branch in attribute.graphs:
                yield from _nodes(branch)


def check_operators(name: str, proto: onnx.ModelProto) -> None:
    """Name all operators that cannot be imported, before anything is.

    Raises:
        UsageError: there are some.
    """
    known = frozenset(onnx_frontend._get_convert_map()) | _DIRECT
    local = {(function.domain, function.name) for function in proto.functions}
    foreign: set[str] = set()
    unknown: set[str] = set()
    for node in _nodes(proto.graph):
        if (node.domain, node.op_type) in local or node.domain not in _KNOWN_DOMAINS:
            foreign.add(f"{node.domain}.{node.op_type}")
        elif node.op_type not in known:
            prefix = "" if node.domain in _DEFAULT_DOMAINS else f"{node.domain}."
            unknown.add(prefix + node.op_type)
    if foreign:
        raise UsageError(
            f"{name} uses operators outside standard ONNX: {', '.join(sorted(foreign))}",
            "export it without custom operators or functions",
        )
    if unknown:
        raise UsageError(
            f"{name} uses operators unknown to the compiler: {', '.join(sorted(unknown))}",
            "export it without them, or replace them by supported ones",
        )
