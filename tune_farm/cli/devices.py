"""`tune-farm devices`: what this machine offers."""

from __future__ import annotations

import click

from tune_farm.cli.options import Configured, configured, listing_format, write_listing

_NOT_PROBED = "not probed in this version"


@click.command(
    cls=Configured, name="devices", epilog="Example: tune-farm devices --format json | jq ."
)
@listing_format
@configured
def devices(format: str) -> None:  # noqa: A002 - named by its option
    """Show what this machine offers: CPU, GPUs, memory, driver."""
    from tune_farm.client.devices.inventory import take_inventory

    inventory = take_inventory()
    cpu = inventory.cpu.device_class
    rows: list[dict[str, object]] = [
        {
            "id": "cpu",
            "name": cpu.name,
            "core_count": cpu.total,
            "sm_count": None,
            "memory_bytes": cpu.memory_bytes,
            "architecture": cpu.architecture,
            "driver": inventory.cpu.driver,
            "mig": None,
            "mps": None,
            "uuid": inventory.cpu.uuid,
        }
    ]
    for gpu in inventory.gpus:
        rows.append(
            {
                "id": f"cuda:{gpu.index}",
                "name": gpu.name,
                "core_count": None,
                "sm_count": gpu.sm_count,
                "memory_bytes": gpu.memory_bytes,
                "architecture": gpu.compute_capability,
                "driver": gpu.driver,
                "mig": _mig(gpu.mig_enabled),
                "mps": _NOT_PROBED,
                "uuid": gpu.uuid,
            }
        )
    write_listing(
        rows, format, wrapper="devices", extra={"no_gpu_reason": inventory.no_gpu_reason or None}
    )
    if format == "table" and inventory.no_gpu_reason:
        click.echo(f"GPUs: none ({inventory.no_gpu_reason})")


def _mig(enabled: bool | None) -> str | None:
    if enabled is None:
        return None
    return f"on; instances {_NOT_PROBED}" if enabled else "off"
