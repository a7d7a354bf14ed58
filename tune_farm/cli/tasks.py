"""`tune-farm tasks MODEL`: a model's operators, without tuning and without its weights."""

from __future__ import annotations

from typing import Any

import click

from tune_farm.cli.model_options import model_options
from tune_farm.cli.options import Configured, Percent, configured, listing_format, write_listing


@click.command(cls=Configured, name="tasks", epilog="Example: tune-farm tasks bert-base --batch 4")
@model_options
@click.option("--device", default="auto", show_default=True, help="Device to lower for.")
@click.option("--target", help="TVM target tag or JSON; the device's if left out.")
@click.option(
    "--sm-share",
    type=Percent(),
    default=100,
    show_default=True,
    metavar="PERCENT",
    help="Share to lower for.",
)
@listing_format
@configured
def tasks(
    format: str,  # noqa: A002 - named by its option
    model: str,
    batch: int,
    seq: int,
    shape: tuple[tuple[str, int], ...],
    dtype: str,
    layout: str,
    fast_math: bool,
    device: str,
    target: str | None,
    sm_share: int,
) -> None:
    """List the operators of MODEL: a built-in name or an .onnx file."""
    from tune_farm.server.form_choice import Wanted
    from tune_farm.server.place import Wish, open_place
    from tune_farm.server.preparation import prepare
    from tune_farm.sharding.layout import Layout
    from tune_farm.sharding.models.spec import ModelSpec

    with open_place(Wish(device=device, percent=sm_share), builds=False) as place:
        tuned_for, machine = place.device, place.machine
    prepared = prepare(
        ModelSpec(model=model, batch=batch, sequence=seq, shapes=shape),
        device=tuned_for,
        machine=machine,
        target=target,
        wanted=Wanted(
            layout=None if layout == "auto" else Layout(layout),
            fast_math=fast_math,
            dtype=None if dtype == "auto" else dtype,
        ),
        selection=None,
        with_weights=False,
    )
    rows = _rows(prepared.extraction.tasks)
    left_out = _left_out(prepared.extraction)
    write_listing(rows, format, wrapper="tasks", extra={"left_out": left_out})
    if format == "table":
        for row in left_out:
            click.echo(f"not tuned: {row['name']}: {row['reason']}")


def _rows(found: Any) -> list[dict[str, object]]:
    work = sum(task.flops * task.weight for task in found) or 1.0
    return [
        {
            "task": index,
            "name": task.name,
            "kind": task.kind,
            "weight": task.weight,
            "mflop": round(task.flops / 1e6, 3),
            "mib": round(task.bytes_moved / 2**20, 3),
            "work_percent": round(100 * task.flops * task.weight / work, 2),
            "dtype": _dtype(task.arguments),
            "shapes": " ".join("x".join(map(str, each.shape)) for each in task.arguments),
            "id": task.id,
        }
        for index, task in enumerate(found)
    ]


def _dtype(arguments: Any) -> str:
    """The type that an operator computes with: its result's, or a shorter one of its operands."""
    types = [str(each.dtype) for each in arguments]
    return next((each for each in types if each in ("float16", "bfloat16")), types[-1])


def _left_out(extraction: Any) -> list[dict[str, object]]:
    rows = [{"name": row.name, "reason": row.reason} for row in extraction.untunable]
    return rows + [
        {"name": row.name, "reason": f"{row.reason}; {row.remedy}"} for row in extraction.skipped
    ]
