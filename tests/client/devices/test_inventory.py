from __future__ import annotations

import pytest

from tune_farm.client.devices import inventory
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


def test_auto_is_this_cpu_and_says_why() -> None:
    selected = inventory.select("auto")

    assert selected.device.device_class.kind == "cpu"
    assert len(selected.cores) == selected.device.device_class.total
    assert selected.reason == "no GPU found"


@pytest.mark.usefixtures("one_gpu")
def test_auto_beside_a_gpu_is_still_this_cpu() -> None:
    assert inventory.select("auto").reason == "tuning on GPUs is not available in this version"


def test_asking_for_the_cpu_needs_no_reason() -> None:
    assert inventory.select("cpu").reason == ""


@pytest.mark.parametrize("spec", ["cuda:0", "cuda", "GPU-1", "MIG-1"])
def test_a_gpu_without_a_driver_is_refused_with_the_remedy(spec: str) -> None:
    with pytest.raises(EnvironmentUnusableError) as caught:
        inventory.select(spec)

    assert "no NVIDIA driver found" in caught.value.cause
    assert "--device cpu" in caught.value.remedy
    assert caught.value.exit_code == 5


@pytest.mark.usefixtures("one_gpu")
@pytest.mark.parametrize("spec", ["cuda:0", "0", "GPU-"])
def test_a_gpu_is_refused_even_where_there_is_one(spec: str) -> None:
    with pytest.raises(EnvironmentUnusableError, match=r"H200.*not available in this version"):
        inventory.select(spec)


@pytest.mark.usefixtures("one_gpu")
def test_a_gpu_that_is_not_there_is_no_version_s_fault() -> None:
    with pytest.raises(EnvironmentUnusableError, match="1 GPU is granted"):
        inventory.select("cuda:1")
    with pytest.raises(UsageError, match="does not exist on this machine"):
        inventory.select("GPU-2")


def test_replayed_devices_are_of_a_later_version() -> None:
    with pytest.raises(UsageError, match="not available in this version"):
        inventory.select("replay:conv")


def test_a_simulated_device_says_what_it_is() -> None:
    selected = inventory.select("sim:h100")

    assert selected.simulated is not None
    assert selected.device.uuid == "sim:h100"
    assert selected.device.device_class.name.startswith("SIMULATED")


@pytest.mark.parametrize("spec", ["", "gpu", "cuda:x", "cpu:0", "sim:", "CPU"])
def test_what_is_no_device_is_answered_with_the_forms(spec: str) -> None:
    with pytest.raises(UsageError, match="cuda:N"):
        inventory.select(spec)
