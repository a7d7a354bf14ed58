from __future__ import annotations

import pytest

from tune_farm.client.devices import inventory
from tune_farm.client.devices.cpu import usable_cores
from tune_farm.client.devices.gpus import Gpu, GpuListing
from tune_farm.tuner.errors import EnvironmentUnusableError, UsageError

CARD = Gpu(
    index=0,
    uuid="GPU-1",
    name="NVIDIA H200",
    driver="580.65",
    sm_count=132,
    memory_bytes=1,
    compute_capability="9.0",
    mig_enabled=False,
    instances=(),
    compute_mode=0,
    pids=(),
)


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    listing = GpuListing(gpus=(), reason="no NVIDIA driver found")
    monkeypatch.setattr(inventory, "list_gpus", lambda: listing)


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "list_gpus", lambda: GpuListing(gpus=(CARD,), reason=""))


@pytest.fixture
def with_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in ("missing_compiler", "missing_runtime"):
        monkeypatch.setattr(inventory, function, lambda: None)


def selected(spec: str, **environment: str) -> inventory.Selection:
    return inventory.select(spec, environment)


def test_auto_is_this_cpu_and_says_why() -> None:
    found = selected("auto")

    assert not found.places
    assert found.cores == usable_cores()
    assert found.reason == "no GPU found"


@pytest.mark.usefixtures("one_gpu", "with_cuda")
def test_auto_is_the_first_gpu_that_was_granted() -> None:
    found = selected("auto")

    assert [place.uuid for place in found.places] == ["GPU-1"]
    assert found.reason == "found NVIDIA H200"


@pytest.mark.usefixtures("one_gpu", "with_cuda")
def test_auto_takes_no_gpu_that_was_not_granted() -> None:
    found = selected("auto", CUDA_VISIBLE_DEVICES="")

    assert not found.places
    assert found.reason == "no GPU granted (CUDA_VISIBLE_DEVICES=)"


@pytest.mark.usefixtures("one_gpu")
@pytest.mark.parametrize(
    ("function", "what"),
    [("missing_compiler", "a compiler for CUDA"), ("missing_runtime", "libcudart.so.13")],
)
def test_auto_is_the_cpu_where_cuda_is_not_installed_and_says_so(
    monkeypatch: pytest.MonkeyPatch, with_cuda: None, function: str, what: str
) -> None:
    monkeypatch.setattr(inventory, function, lambda: what)

    found = selected("auto")

    assert not found.places
    assert found.reason == f"found NVIDIA H200, but not {what}: pip install 'tune-farm[cuda]'"


def test_asking_for_the_cpu_needs_no_reason() -> None:
    assert selected("cpu").reason == ""


@pytest.mark.parametrize("spec", ["cuda:0", "cuda", "GPU-1", "MIG-1"])
def test_a_gpu_without_a_driver_is_refused_with_the_remedy(spec: str) -> None:
    with pytest.raises(EnvironmentUnusableError) as caught:
        selected(spec)

    assert "no NVIDIA driver found" in caught.value.cause
    assert "--device cpu" in caught.value.remedy
    assert caught.value.exit_code == 5


@pytest.mark.usefixtures("one_gpu")
@pytest.mark.parametrize("spec", ["cuda:0", "0", "cuda", "GPU-", "GPU-1"])
def test_a_gpu_is_named_in_many_ways(spec: str) -> None:
    found = selected(spec)

    assert [place.uuid for place in found.places] == ["GPU-1"]
    assert found.reason == ""


@pytest.mark.usefixtures("one_gpu")
def test_a_gpu_that_is_not_there_is_no_version_s_fault() -> None:
    with pytest.raises(EnvironmentUnusableError, match="1 GPU is granted"):
        selected("cuda:1")
    with pytest.raises(UsageError, match="does not exist on this machine"):
        selected("GPU-2")


def test_replayed_devices_are_of_a_later_version() -> None:
    with pytest.raises(UsageError, match="not available in this version"):
        selected("replay:conv")


def test_a_simulated_device_says_what_it_is() -> None:
    found = selected("sim:h100")

    assert found.simulated is not None
    assert found.simulated.device().uuid == "sim:h100"
    assert found.simulated.device().device_class.name.startswith("SIMULATED")


@pytest.mark.parametrize("spec", ["", "gpu", "cuda:x", "cpu:0", "sim:", "CPU"])
def test_what_is_no_device_is_answered_with_the_forms(spec: str) -> None:
    with pytest.raises(UsageError, match="cuda:N"):
        selected(spec)
