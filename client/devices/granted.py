"""The GPUs that a job may use: on a shared node not all that the driver lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tune_farm.client.devices.gpus import Gpu, MigInstance
from tune_farm.tuner.errors import EnvironmentUnusableError, UsageError

VISIBLE = "CUDA_VISIBLE_DEVICES"
#: Where Slurm does not hide the others, these name the job's, by the driver's numbers.
_SLURM = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPlace:
    """What one CUDA process is given: a GPU, or one of its MIG instances."""

    gpu: Gpu
    instance: MigInstance | None = None

    @property
    def uuid(self) -> str:
        """By which CUDA_VISIBLE_DEVICES names it."""
        return self.gpu.uuid if self.instance is None else self.instance.uuid

    @property
    def name(self) -> str:
        """For people."""
        if self.instance is None:
            return self.gpu.name
        return f"{self.gpu.name} MIG {self.instance.profile}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What may be used here, and who says so."""

    places: tuple[GpuPlace, ...]  # in the order in which CUDA counts them
    source: str  # "CUDA_VISIBLE_DEVICES=0,2"; empty: nothing restricts us


def granted(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> Grant:
    """Cut the driver's list to what the job was granted.

    A GPU in MIG mode is nothing that CUDA can use: its instances are.

    Args:
        gpus: as the driver lists them.
        environment: of the process; CUDA_VISIBLE_DEVICES counts, then Slurm's variables.
    """
    everything = [place for gpu in gpus for place in places_of(gpu)]
    if VISIBLE in environment:
        words = environment[VISIBLE]
        source = f"{VISIBLE}={words}"
    else:
        named = next((name for name in _SLURM if environment.get(name)), None)
        if named is None:
            return Grant(places=tuple(everything), source="")
        words = environment[named]
        source = f"{named}={words}"
    places: list[GpuPlace] = []
    for word in words.split(","):
        found = _named(word.strip(), gpus, everything)
        if not found:
            break  # CUDA, too, stops at the first that it does not know
        places += [place for place in found if place not in places]
    return Grant(places=tuple(places), source=source)


def places_of(gpu: Gpu) -> tuple[GpuPlace, ...]:
    """What CUDA can use of a GPU; nothing where MIG is on and has no instance."""
    if gpu.mig_enabled:
        return tuple(GpuPlace(gpu=gpu, instance=instance) for instance in gpu.instances)
    return (GpuPlace(gpu=gpu),)


def find(spec: str, gpus: Sequence[Gpu], grant: Grant) -> tuple[GpuPlace, ...]:
    """The places that one device specification names.

    Args:
        spec: `0`, `cuda`, `cuda:0`, `GPU-…` or `MIG-…`; UUIDs may be cut short where what is left
            is unique. A GPU in MIG mode stands for all its instances.
        gpus: as the driver lists them.
        grant: what of them may be used.

    Raises:
        UsageError: it is ambiguous, or names nothing that exists.
        EnvironmentUnusableError: what it names can't be used by this job, or has no instance.
    """
    if spec.startswith(("GPU-", "MIG-")):
        return _by_uuid(spec, gpus, grant)
    number = spec.removeprefix("cuda").removeprefix(":") or "0"
    if not number.isdecimal():
        raise UsageError(f"device {spec!r} is not a device", "see 'tune-farm devices'")
    _require_instances(gpus, grant)
    # Counted as CUDA counts: what is granted. All instances of one GPU are one such number.
    counted = list(dict.fromkeys(place.gpu.uuid for place in grant.places))
    if int(number) >= len(counted):
        raise EnvironmentUnusableError(
            f"device {spec!r} does not exist: {_count(len(counted))} granted{_by(grant)}",
            "see 'tune-farm devices'",
        )
    return tuple(place for place in grant.places if place.gpu.uuid == counted[int(number)])


def _by_uuid(spec: str, gpus: Sequence[Gpu], grant: Grant) -> tuple[GpuPlace, ...]:
    if spec.startswith("GPU-"):
        matching = [gpu.uuid for gpu in gpus if gpu.uuid.startswith(spec)]
    else:
        matching = [
            instance.uuid
            for gpu in gpus
            for instance in gpu.instances
            if instance.uuid.startswith(spec)
        ]
    if len(matching) > 1:
        raise UsageError(
            f"device {spec!r} is ambiguous: {' and '.join(matching[:3])} begin so",
            "give more of the UUID",
        )
    if not matching:
        raise UsageError(
            f"device {spec!r} does not exist on this machine", "see 'tune-farm devices'"
        )
    places = tuple(place for place in grant.places if matching[0] in (place.uuid, place.gpu.uuid))
    if places:
        return places
    named = next((gpu for gpu in gpus if gpu.uuid == matching[0]), None)
    if named is not None and named.mig_enabled and not named.instances:
        raise _no_instance(named)
    raise EnvironmentUnusableError(
        f"device {spec!r} is not granted to this job{_by(grant)}",
        "ask the scheduler for it, or choose another",
    )


def _require_instances(gpus: Sequence[Gpu], grant: Grant) -> None:
    if not grant.places:
        empty = next((gpu for gpu in gpus if gpu.mig_enabled and not gpu.instances), None)
        if empty is not None:
            raise _no_instance(empty)


def _no_instance(gpu: Gpu) -> EnvironmentUnusableError:
    return EnvironmentUnusableError(
        f"{gpu.uuid} ({gpu.name}) is in MIG mode and has no instance that this user may see, so "
        "CUDA has no device there",
        "create instances with 'nvidia-smi mig -cgi … -C', or give --create-mig",
    )


def _named(word: str, gpus: Sequence[Gpu], everything: Sequence[GpuPlace]) -> list[GpuPlace]:
    """What one word of a list of devices names; of a GPU in MIG mode, its instances."""
    if word.isdecimal():
        uuids = {gpus[int(word)].uuid} if int(word) < len(gpus) else set()
    elif word.startswith("MIG-GPU-"):  # before driver 470: MIG-<GPU's UUID>/<gi>/<ci>
        uuid, _, ids = word.removeprefix("MIG-").partition("/")
        return [
            place
            for place in everything
            if place.gpu.uuid == uuid
            and place.instance is not None
            and f"{place.instance.gpu_instance}/{place.instance.compute_instance}" == ids
        ]
    elif word:
        uuids = {
            uuid
            for place in everything
            for uuid in (place.uuid, place.gpu.uuid)
            if uuid.startswith(word)
        }
    else:
        uuids = set()
    if len(uuids) != 1:
        return []
    return [place for place in everything if uuids & {place.uuid, place.gpu.uuid}]


def _count(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'} {'is' if count == 1 else 'are'}"


def _by(grant: Grant) -> str:
    return f" ({grant.source})" if grant.source else ""
