"""What the end-to-end tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.onnx")
