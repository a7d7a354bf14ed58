"""The C compiler that TVM links candidates with; without one every build fails, silently in TVM."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from tune_farm.tuner.errors import EnvironmentUnusableError

#: As TVM looks for it: CXX, then CC, then these, in this order.
_VARIABLES = ("CXX", "CC")
_NAMES = ("g++", "gcc", "clang++", "clang", "c++", "cc")
_REMEDY = "install one, for example with 'apt-get install g++'"


def require_compiler(environment: Mapping[str, str] | None = None) -> str:
    """The path of the compiler that TVM will link with.

    Args:
        environment: variables to look in; this process's if None.

    Raises:
        EnvironmentUnusableError: there is none, or CXX or CC names one that cannot be run.
    """
    variables = os.environ if environment is None else environment
    path = variables.get("PATH", os.defpath)
    for variable in _VARIABLES:
        if named := variables.get(variable):
            if found := shutil.which(named, path=path):
                return found
            raise EnvironmentUnusableError(
                f"the C compiler {named!r}, which {variable} names, is not an executable on PATH",
                f"unset {variable} or let it name a compiler without arguments",
            )
    for name in _NAMES:
        if found := shutil.which(name, path=path):
            return found
    raise EnvironmentUnusableError("no C compiler on PATH", _REMEDY)
