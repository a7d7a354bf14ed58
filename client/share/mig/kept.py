"""Writes down what was created, so that another process can destroy it if this one can't."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from tune_farm.client.devices.granted import GpuPlace
from tune_farm.client.share.mig.create import Made, create, destroy, places_of
from tune_farm.client.share.mig.geometry import Geometry

_FILE = "mig-instances.json"


@contextmanager
def created(geometry: Geometry, root: Path) -> Iterator[tuple[GpuPlace, ...]]:
    """The instances of a geometry, there within; all others are left alone.

    Args:
        geometry: what to create.
        root: where it is written down.

    Yields:
        Their places, in the order of the geometry.

    Raises:
        EnvironmentUnusableError: one can't be created; those before it are gone again.
    """
    made = create(geometry)
    try:
        (root / _FILE).write_text(json.dumps([asdict(each) for each in made]))
        yield places_of(made)
    finally:
        destroy(made)
        (root / _FILE).unlink(missing_ok=True)


def destroy_left(root: Path) -> None:
    """Destroy what a process that is gone had created."""
    try:
        told = json.loads((root / _FILE).read_text())
    except OSError:
        return
    destroy([Made(**each) for each in told])
    (root / _FILE).unlink(missing_ok=True)
