"""A cluster that does not start is a named cause with a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import ray

from tune_farm.server.farm import Farm
from tune_farm.tuner.errors import EnvironmentUnusableError

BUSY = "The current node timed out during startup. This could happen because …"


@pytest.mark.parametrize(
    ("address", "remedy"), [(None, "run less beside it"), ("10.0.0.1:6379", "check --address")]
)
def test_ray_that_does_not_start(
    address: str | None, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**how: Any) -> None:
        # What Ray raises where a machine is so busy that its raylet takes more than 30 s; staged,
        # as no test can wait for it.
        raise Exception(BUSY)

    monkeypatch.setattr(ray, "init", fail)

    with pytest.raises(EnvironmentUnusableError, match="Ray did not start: The current") as refused:
        Farm({}, address=address).start(tmp_path)

    assert remedy in str(refused.value)
    assert refused.value.exit_code == 5
