"""Which MIG instances to create on a GPU: pure.

Profiles, and where each may lie, are what the driver tells of this very GPU; no table knows them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tune_farm.tuner.errors import EnvironmentUnusableError, UsageError

_GIB = 1 << 30
#: Others ("1g.10gb+me", "1g.24gb+gfx", "1g.24gb-me") differ by engines that no kernel uses.
_PLAIN = re.compile(r"\d+g\.\d+gb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where an instance lies on its GPU, in memory slices."""

    start: int
    size: int

    def overlaps(self, other: Placement) -> bool:
        """Whether both can't be there at once."""
        return self.start < other.start + other.size and other.start < self.start + self.size

    def __str__(self) -> str:
        last = self.start + self.size - 1
        return f"slice {self.start}" if self.size == 1 else f"slices {self.start}-{last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A kind of GPU instance, as the driver describes it."""

    id: int  # by which the driver creates it
    name: str  # "1g.10gb"
    slices: int  # compute slices
    sm_count: int
    memory_bytes: int
    left: int  # so many can still be created, if no other kind is
    placements: tuple[Placement, ...]  # all that it may take, free or not


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What can be created on a GPU, and what is there already."""

    gpu: str  # UUID
    name: str  # of the GPU
    profiles: tuple[Profile, ...]
    taken: tuple[Placement, ...]  # of the instances that are there; they stay


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One instance to create, and where."""

    profile: Profile
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """The instances to create on a GPU, in this order."""

    gpu: str  # UUID
    name: str  # of the GPU
    stays: int  # instances that are there already
    parts: tuple[Part, ...]

    def lines(self) -> tuple[str, ...]:
        """What will be created, for people to read before it is."""
        beside = f", beside {_instances(self.stays)} already there" if self.stays else ""
        count = _instances(len(self.parts))
        return (
            f"creating {count} on {self.gpu} ({self.name}){beside}; destroyed at the end:",
            *(
                f"  {part.profile.name}: {part.profile.slices} "
                f"slice{'' if part.profile.slices == 1 else 's'}, {part.profile.sm_count} SMs, "
                f"{part.profile.memory_bytes / _GIB:.1f} GiB, at memory {part.placement}"
                for part in self.parts
            ),
        )


def choose_for_clients(capacity: Capacity, clients: int) -> Geometry:
    """One instance for each client, all of one kind: the one with the most SMs that fits so often.

    Raises:
        UsageError: no client is none.
        EnvironmentUnusableError: there is no room for so many.
    """
    if clients < 1:
        raise UsageError(f"{clients} clients cannot tune", "give --clients 1 or more")
    kinds = [profile for profile in capacity.profiles if _PLAIN.fullmatch(profile.name)]
    for count in range(clients, 0, -1):
        fitting = {kind: _lay_out([kind] * count, capacity) for kind in kinds}
        possible = {kind: parts for kind, parts in fitting.items() if parts is not None}
        if not possible:
            continue
        if count < clients:
            raise EnvironmentUnusableError(
                f"{clients} MIG instances of one kind do not fit on {_where(capacity)}: "
                f"at most {count} can",
                f"use --clients {count}, or name smaller profiles of different kinds",
            )
        best = max(possible, key=lambda kind: (kind.sm_count, kind.memory_bytes))
        return _geometry(capacity, possible[best])
    raise _full(capacity)


def choose_named(capacity: Capacity, names: Sequence[str]) -> Geometry:
    """The instances that somebody named.

    Args:
        capacity: of the GPU.
        names: profiles as the driver names or numbers them ("3g.40gb", "9"), one an instance.

    Raises:
        UsageError: the GPU has no such profile, or none was named.
        EnvironmentUnusableError: there is no room for them together.
    """
    if not names:
        raise UsageError("no MIG profile was named", f"it has {_names(capacity)}")
    wanted = [_profile(name, capacity) for name in names]
    parts = _lay_out(wanted, capacity)
    if parts is not None:
        return _geometry(capacity, parts)
    left = ", ".join(f"{kind.left} x {kind.name}" for kind in dict.fromkeys(wanted))
    named = " and ".join(kind.name for kind in wanted)
    verb = "does not fit" if len(wanted) == 1 else "do not fit together"
    raise EnvironmentUnusableError(
        f"{named} {verb} on {_where(capacity)}: of each alone there is room for {left}",
        "name fewer or smaller profiles; 'nvidia-smi mig -lgi' lists what is there",
    )


def _profile(name: str, capacity: Capacity) -> Profile:
    text = name.strip().removeprefix("MIG ").lower()
    for profile in capacity.profiles:
        if text in (profile.name.lower(), str(profile.id)):
            return profile
    known = [profile.name for profile in capacity.profiles]
    near = difflib.get_close_matches(text, known, 1, 0.0)
    meant = f"did you mean {near[0]}? " if near else ""
    raise UsageError(
        f"{capacity.gpu} ({capacity.name}) has no MIG profile {name.strip()!r}",
        f"{meant}it has {_names(capacity)}",
    )


def _lay_out(wanted: Sequence[Profile], capacity: Capacity) -> tuple[Part, ...] | None:
    """A free placement for each, the largest first; None if they do not all fit."""
    if any(wanted.count(kind) > kind.left for kind in set(wanted)):
        return None
    order = sorted(wanted, key=lambda kind: (-kind.slices, -kind.memory_bytes, kind.name))
    return _place(order, capacity.taken, capacity)


def _place(
    wanted: Sequence[Profile], taken: tuple[Placement, ...], capacity: Capacity
) -> tuple[Part, ...] | None:
    """Tries all placements: where one lies decides what fits beside it."""
    if not wanted:
        return ()
    kind, *rest = wanted
    for placement in sorted(kind.placements, key=lambda place: _blocks(place, capacity)):
        if any(placement.overlaps(other) for other in taken):
            continue
        others = _place(rest, (*taken, placement), capacity)
        if others is not None:
            return (Part(profile=kind, placement=placement), *others)
    return None


def _blocks(placement: Placement, capacity: Capacity) -> int:
    """Placements of all kinds that are lost by it: the fewer, the more can be created later."""
    return sum(placement.overlaps(other) for kind in capacity.profiles for other in kind.placements)


def _geometry(capacity: Capacity, parts: tuple[Part, ...]) -> Geometry:
    return Geometry(gpu=capacity.gpu, name=capacity.name, stays=len(capacity.taken), parts=parts)


def _full(capacity: Capacity) -> EnvironmentUnusableError:
    return EnvironmentUnusableError(
        f"no MIG instance can be created on {_where(capacity)}: there is no room",
        "use the instances that are there (without --create-mig), or have some destroyed: "
        "'nvidia-smi mig -lgi' lists them",
    )


def _where(capacity: Capacity) -> str:
    beside = f" beside {_instances(len(capacity.taken))} already there" if capacity.taken else ""
    return f"{capacity.gpu} ({capacity.name}){beside}"


def _names(capacity: Capacity) -> str:
    return ", ".join(profile.name for profile in capacity.profiles) or "none"


def _instances(count: int) -> str:
    return f"{count} MIG instance" + ("" if count == 1 else "s")
