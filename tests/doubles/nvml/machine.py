"""A machine with GPUs as the double of the driver's library tells it; see driver.c beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: NVML's errors, as a value of the double's file.
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, GPU_IS_LOST = "!3", "!4", "!9", "!15"
IN_USE, INSUFFICIENT_RESOURCES = "!19", "!23"


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One MIG device."""

    index: int  # NVML's; holes are normal
    uuid: str
    profile: str = "1g.10gb"
    sms: int = 16
    slices: int = 1
    compute_slices: int = 1
    memory_mb: int = 9856
    gi: int = 7
    ci: int = 0
    start: int | None = None  # memory slice; None: its GPU instance is of no interest


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A kind of GPU instance that can be created."""

    index: int  # NVML's number of the profile's kind
    id: int
    name: str
    slices: int
    sms: int
    memory_mb: int
    most: int
    starts: tuple[int, ...]  # memory slices where one may begin
    size: int  # memory slices


def _profile(
    index: int,
    number: int,
    name: str,
    slices: int,
    sms: int,
    memory_mb: int,
    *starts: int,
    size: int,
) -> Profile:
    return Profile(
        index=index,
        id=number,
        name=name,
        slices=slices,
        sms=sms,
        memory_mb=memory_mb,
        most=1 if "+" in name else len(starts),
        starts=starts,
        size=size,
    )


#: As `nvidia-smi mig -lgip` and `-lgipp` list them on an H100 SXM of 80 GB.
H100_PROFILES = (
    _profile(0, 19, "1g.10gb", 1, 16, 9984, 0, 1, 2, 3, 4, 5, 6, size=1),
    _profile(7, 20, "1g.10gb+me", 1, 16, 9984, 0, 1, 2, 3, 4, 5, 6, size=1),
    _profile(9, 15, "1g.20gb", 1, 26, 20096, 0, 2, 4, 6, size=2),
    _profile(1, 14, "2g.20gb", 2, 32, 20096, 0, 2, 4, size=2),
    _profile(2, 9, "3g.40gb", 3, 60, 40448, 0, 4, size=4),
    _profile(3, 5, "4g.40gb", 4, 64, 40448, 0, size=4),
    _profile(4, 0, "7g.80gb", 7, 132, 81152, 0, size=8),
)


@dataclass(frozen=True, kw_only=True)
class Card:
    """One GPU; a text beginning with '!' is the error that the question gets."""

    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    capability: str = "9.0"
    cores: int | str = 132 * 128
    memory: int | str = 80 << 30
    compute_mode: int | str = 0
    mig_mode: int | str = 0
    mig_most: int | str = 7
    mig_create: int | str = 1
    handle: str = ""
    instances: tuple[Instance, ...] = ()
    profiles: tuple[Profile, ...] = ()
    processes: str = ""
    mps_processes: str = ""
    more: dict[str, int | str] = field(default_factory=dict)  # "clock.reasons", "mig.read", …


def lines_of(cards: tuple[Card, ...], *, driver: str, cuda: int, init: str) -> Iterator[str]:
    """The lines that the double reads."""
    if init:
        yield f"init {init}"
    yield f"driver {driver}"
    yield f"cuda {cuda}"
    yield f"gpus {len(cards)}"
    for number, card in enumerate(cards):
        values: dict[str, int | str] = {
            "uuid": card.uuid,
            "name": card.name,
            "capability": card.capability,
            "cores": card.cores,
            "memory": card.memory,
            "compute_mode": card.compute_mode,
            "mig_mode": card.mig_mode,
            "mig.most": card.mig_most,
            "handle": card.handle,
            "processes": card.processes,
            "mps_processes": card.mps_processes,
            "mig.create": card.mig_create,
            **card.more,
        }
        for instance in card.instances:
            for name in ("uuid", "sms", "slices", "compute_slices", "memory_mb", "gi", "ci"):
                values[f"mig.{instance.index}.{name}"] = getattr(instance, name)
            values[f"mig.{instance.index}.name"] = f"{card.name} MIG {instance.profile}"
            if instance.start is not None:
                kind = next(each for each in card.profiles if each.name == instance.profile)
                values[f"gi.{instance.gi}.profile_id"] = kind.id
                values[f"gi.{instance.gi}.start"] = instance.start
                values[f"gi.{instance.gi}.size"] = kind.size
        for profile in card.profiles:
            for name in ("id", "name", "slices", "sms", "memory_mb", "most"):
                values[f"profile.{profile.index}.{name}"] = getattr(profile, name)
            places = " ".join(f"{start}:{profile.size}" for start in profile.starts)
            values[f"profile.{profile.index}.placements"] = places
        yield from (f"gpu.{number}.{name} {value}" for name, value in values.items() if value != "")


def write_machine(
    path: Path, *cards: Card, driver: str = "580.65.06", cuda: int = 13000, init: str = ""
) -> None:
    """Say what the driver answers from now on."""
    fresh = path.with_suffix(".new")
    fresh.write_text("\n".join(lines_of(cards, driver=driver, cuda=cuda, init=init)) + "\n")
    fresh.replace(path)
