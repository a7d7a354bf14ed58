from __future__ import annotations

from pathlib import Path

import pytest

from tune_farm.client.devices.compiler import require_compiler
from tune_farm.tuner.errors import EnvironmentUnusableError


@pytest.fixture
def gcc(tmp_path: Path) -> Path:
    path = tmp_path / "gcc"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_compiler_on_the_path_is_found(gcc: Path) -> None:
    assert require_compiler({"PATH": str(gcc.parent)}) == str(gcc)


def test_none_on_the_path_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnusableError, match="apt-get install") as caught:
        require_compiler({"PATH": str(tmp_path)})

    assert caught.value.exit_code == 5


def test_the_variable_comes_first(gcc: Path) -> None:
    assert require_compiler({"PATH": "/nowhere", "CC": str(gcc)}) == str(gcc)


def test_a_variable_that_names_nothing_is_named(gcc: Path) -> None:
    with pytest.raises(EnvironmentUnusableError, match="'icc', which CXX names"):
        require_compiler({"PATH": str(gcc.parent), "CXX": "icc"})
