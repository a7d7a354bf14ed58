from __future__ import annotations

import pytest

from tune_farm.client.devices.gpus import Gpu, MigInstance
from tune_farm.client.devices.granted import find, granted
from tune_farm.tuner.errors import EnvironmentUnusableError, UsageError


def instance(index: int, uuid: str) -> MigInstance:
    return MigInstance(
        uuid=uuid,
        index=index,
        profile="1g.10gb",
        sm_count=16,
        memory_bytes=10 << 30,
        gpu_slices=1,
        compute_slices=1,
        gpu_instance=7 + index,
        compute_instance=0,
    )


def gpu(index: int, uuid: str, *instances: MigInstance, mig: bool = False) -> Gpu:
    return Gpu(
        index=index,
        uuid=uuid,
        name="NVIDIA H100",
        driver="580",
        sm_count=132,
        memory_bytes=80 << 30,
        compute_capability="9.0",
        mig_enabled=mig,
        instances=instances,
        compute_mode=0,
        pids=(),
    )


NODE = (
    gpu(0, "GPU-aa11"),
    gpu(1, "GPU-ab22"),
    gpu(2, "GPU-cc33", instance(0, "MIG-x1"), instance(2, "MIG-y2"), mig=True),
)
EMPTY = (gpu(0, "GPU-dd44", mig=True),)


@pytest.mark.parametrize(
    ("environment", "uuids"),
    [
        ({}, ["GPU-aa11", "GPU-ab22", "MIG-x1", "MIG-y2"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["GPU-ab22"]),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, ["GPU-ab22", "GPU-aa11"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-cc33"}, ["MIG-x1", "MIG-y2"]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-y2"}, ["MIG-y2"]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-GPU-cc33/9/0"}, ["MIG-y2"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": "0,7,1"}, ["GPU-aa11"]),  # CUDA stops at the first unknown
        ({"CUDA_VISIBLE_DEVICES": "GPU-a"}, []),  # ambiguous: CUDA knows it not
        ({"SLURM_JOB_GPUS": "0,1", "SLURM_STEP_GPUS": "1"}, ["GPU-ab22"]),
        ({"SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "1"}, ["GPU-ab22"]),
    ],
)
def test_only_what_was_granted(environment: dict[str, str], uuids: list[str]) -> None:
    assert [place.uuid for place in granted(NODE, environment).places] == uuids


@pytest.mark.parametrize(
    ("spec", "uuids"),
    [
        ("cuda", ["GPU-aa11"]),
        ("cuda:1", ["GPU-ab22"]),
        ("1", ["GPU-ab22"]),
        ("cuda:2", ["MIG-x1", "MIG-y2"]),
        ("GPU-aa", ["GPU-aa11"]),
        ("GPU-cc33", ["MIG-x1", "MIG-y2"]),
        ("MIG-y", ["MIG-y2"]),
    ],
)
def test_a_device_is_named(spec: str, uuids: list[str]) -> None:
    assert [place.uuid for place in find(spec, NODE, granted(NODE, {}))] == uuids


def test_devices_are_counted_among_the_granted() -> None:
    grant = granted(NODE, {"CUDA_VISIBLE_DEVICES": "1"})

    assert [place.uuid for place in find("cuda:0", NODE, grant)] == ["GPU-ab22"]
    with pytest.raises(EnvironmentUnusableError, match="CUDA_VISIBLE_DEVICES=1"):
        find("cuda:1", NODE, grant)
    with pytest.raises(EnvironmentUnusableError, match="not granted to this job"):
        find("GPU-aa", NODE, grant)


@pytest.mark.parametrize("spec", ["GPU-a", "GPU-zz", "MIG-zz", "cuda:x", "1.5"])
def test_what_names_no_single_device_is_an_error_of_usage(spec: str) -> None:
    with pytest.raises(UsageError):
        find(spec, NODE, granted(NODE, {}))


@pytest.mark.parametrize("spec", ["cuda", "0", "GPU-dd"])
def test_mig_without_an_instance_is_told(spec: str) -> None:
    with pytest.raises(EnvironmentUnusableError, match="MIG mode and has no instance"):
        find(spec, EMPTY, granted(EMPTY, {}))


def test_uuids_are_never_taken_for_numbers() -> None:
    with pytest.raises(UsageError, match="does not exist"):
        find("MIG-0", NODE, granted(NODE, {}))
