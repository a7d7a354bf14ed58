from __future__ import annotations

from types import SimpleNamespace

import pynvml
import pytest

from tune_farm.client.devices.nvml import list_gpus


class FakeDriver:
    """Answers like the driver of a machine with two cards, the second of which tells little."""

    def __init__(self) -> None:
        self.open = 0

    def init(self) -> None:
        self.open += 1

    def shutdown(self) -> None:
        self.open -= 1

    def refuse_second(self, handle: int, answer: object) -> object:
        if handle == 1:
            raise pynvml.NVMLError_NotSupported
        return answer


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    second = fake.refuse_second
    answers = {
        "nvmlInit": fake.init,
        "nvmlShutdown": fake.shutdown,
        "nvmlSystemGetDriverVersion": lambda: "580.65",
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
        "nvmlDeviceGetName": lambda handle: "NVIDIA H200",
        "nvmlDeviceGetCudaComputeCapability": lambda handle: second(handle, (9, 0)),
        "nvmlDeviceGetNumGpuCores": lambda handle: second(handle, 132 * 128),
        "nvmlDeviceGetMemoryInfo": lambda handle: second(handle, SimpleNamespace(total=141 << 30)),
        "nvmlDeviceGetMigMode": lambda handle: second(handle, (1, 1)),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    return fake


def test_gpus_are_listed_and_the_driver_is_let_go(driver: FakeDriver) -> None:
    listing = list_gpus()

    first, second = listing.gpus
    assert (first.sm_count, first.memory_bytes, first.compute_capability, first.mig_enabled) == (
        132,
        141 << 30,
        "9.0",
        True,
    )
    assert second.uuid == "GPU-1"
    assert (second.sm_count, second.memory_bytes, second.compute_capability) == (None, None, None)
    assert second.mig_enabled is None
    assert listing.reason == ""
    assert driver.open == 0


def test_a_lost_gpu_hides_no_other(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def handle_of(index: int) -> int:
        if index == 0:
            raise pynvml.NVMLError_GpuIsLost
        return index

    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", handle_of)

    assert [gpu.index for gpu in list_gpus().gpus] == [1]


def test_an_unknown_generation_has_no_sm_count(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCudaComputeCapability", lambda _handle: (99, 0))

    assert list_gpus().gpus[0].sm_count is None


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (pynvml.NVMLError_LibraryNotFound, "no NVIDIA driver found"),
        (pynvml.NVMLError_DriverNotLoaded, "no NVIDIA driver found"),
        (pynvml.NVMLError_LibRmVersionMismatch, "does not answer"),
    ],
)
def test_no_driver_is_a_reason_not_an_error(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception], reason: str
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(pynvml, "nvmlInit", fail)

    listing = list_gpus()
    assert listing.gpus == ()
    assert reason in listing.reason
