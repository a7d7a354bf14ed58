"""What tells two versions of a law apart: a residual learned on one says nothing of another."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from pathlib import Path

from tune_farm.tuner.predictor.machine import Cpu, Gpu

_OURS = "tune_farm.tuner."


def law_version(machine: Cpu | Gpu) -> str:
    """A name for the law of a kind of machine and its features, such as "cpu-3f9a1c02d4".

    It follows from the code of all that the law is computed with, so nobody can forget to count it
    up; comments and layout of the code do not matter.
    """
    return _version("gpu" if isinstance(machine, Gpu) else "cpu")


@functools.cache
def _version(name: str) -> str:
    todo, trees = [f"{_OURS}predictor.{name}_laws"], dict[str, str]()
    while todo:
        module = todo.pop()
        if module in trees:
            continue
        tree = ast.parse(_source(module))
        trees[module] = ast.dump(tree)
        imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
        todo += [each.module for each in imports if (each.module or "").startswith(_OURS)]  # type: ignore[misc]
    digest = hashlib.sha256("\n".join(trees[module] for module in sorted(trees)).encode())
    return f"{name}-{digest.hexdigest()[:10]}"


def _source(module: str) -> bytes:
    spec = importlib.util.find_spec(module)
    assert spec is not None, module
    assert spec.origin is not None, module
    return Path(spec.origin).read_bytes()
