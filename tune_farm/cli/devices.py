"""`tune-farm devices`: what this machine offers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tune_farm.cli.options import Configured, configured, listing_format, write_listing

if TYPE_CHECKING:
    from tune_farm.client.devices.gpus import Gpu
    from tune_farm.client.devices.inventory import Inventory

#: `nvmlComputeMode_t` of NVML's API reference; 1 is no longer in use.
_COMPUTE_MODES = {0: "default", 2: "prohibited", 3: "exclusive process"}


@click.command(
    cls=Configured, name="devices", epilog="Example: tune-farm devices --format json | jq ."
)
@listing_format
@configured
def devices(format: str) -> None:  # noqa: A002 - named by its option
    """Show what this machine offers: CPU, GPUs, MIG instances, memory, driver, MPS."""
    from tune_farm.client.devices.granted import granted
    from tune_farm.client.devices.inventory import take_inventory
    from tune_farm.client.share.mps.survey import UTILIZATION, mps_state

    inventory = take_inventory()
    grant = granted(inventory.gpus, os.environ)
    rows = [_cpu(inventory)]
    if inventory.gpus:
        mps = mps_state(os.environ)
        usable = {place.uuid for place in grant.places}
        for gpu in inventory.gpus:
            rows += _rows(gpu, usable, mps)
    extra = {
        "no_gpu_reason": inventory.no_gpu_reason or None,
        "granted_by": grant.source or None,
    }
    write_listing(rows, format, wrapper="devices", extra=extra)
    if format == "table":
        none = f"GPUs: none ({inventory.no_gpu_reason})"
        click.echo(none if inventory.no_gpu_reason else f"SMs: {UTILIZATION}")


def _cpu(inventory: Inventory) -> dict[str, object]:
    cpu = inventory.cpu.device_class
    return {
        "id": "cpu",
        "name": cpu.name,
        "granted": True,
        "core_count": cpu.total,
        "sm_count": None,
        "memory_bytes": cpu.memory_bytes,
        "architecture": cpu.architecture,
        "driver": inventory.cpu.driver,
        "mig": None,
        "compute_mode": None,
        "processes": None,
        "mps": None,
        "uuid": inventory.cpu.uuid,
    }


def _rows(gpu: Gpu, usable: set[str], mps: str) -> Iterator[dict[str, object]]:
    """A GPU, then its instances."""
    own: dict[str, object] = {
        "id": f"cuda:{gpu.index}",
        "name": gpu.name,
        "granted": gpu.uuid in usable,
        "core_count": None,
        "sm_count": gpu.sm_count,
        "memory_bytes": gpu.memory_bytes,
        "architecture": gpu.compute_capability,
        "driver": gpu.driver,
        "mig": _mig(gpu),
        "compute_mode": None if gpu.compute_mode is None else _mode(gpu.compute_mode),
        "processes": len(gpu.pids),
        "mps": mps,
        "uuid": gpu.uuid,
    }
    yield own
    for instance in gpu.instances:
        yield {
            **own,
            "id": f"cuda:{gpu.index} mig {instance.index}",
            "granted": instance.uuid in usable,
            "sm_count": instance.sm_count,
            "memory_bytes": instance.memory_bytes,
            "mig": f"{instance.profile} ({instance.gpu_slices} slices)".strip(),
            "processes": None,
            "uuid": instance.uuid,
        }


def _mig(gpu: Gpu) -> str | None:
    if gpu.mig_enabled is None:
        return None
    if not gpu.mig_enabled:
        return "off"
    return f"on: {len(gpu.instances)} instances" if gpu.instances else "on, no instance created"


def _mode(number: int) -> str:
    return _COMPUTE_MODES.get(number, f"mode {number}")
