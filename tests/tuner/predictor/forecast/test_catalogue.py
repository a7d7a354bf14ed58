"""GPUs of the catalogue, their instances, the user's own files, and what is said of bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.predictor.forecast.catalogue import catalogue, chip_of, instances

GPUS = Path(__file__).parents[4] / "configs" / "gpus"


def test_it_spans_p4_to_b200() -> None:
    assert len(catalogue()) >= 25
    assert {"p4", "t4", "v100", "a100", "l4", "h100", "b200"} <= catalogue().keys()


@pytest.mark.parametrize(
    ("name", "teraflops"),  # of the data sheets, FP32 outside tensor cores
    [("p4", 5.5), ("t4", 8.1), ("v100", 14), ("a100", 19.5), ("l4", 30.3), ("h100", 67)],
)
def test_lanes_times_clock_are_the_data_sheets_flops(name: str, teraflops: float) -> None:
    assert chip_of(name).peak_flops / 1e12 == pytest.approx(teraflops, rel=0.04)


def test_sms_are_those_that_the_profiler_counts() -> None:
    assert chip_of("l4").sms == 58
    assert chip_of("p4").sms == 20


@pytest.mark.parametrize("file", sorted(GPUS.glob("*.toml")), ids=lambda file: file.stem)
def test_each_number_has_its_source(file: Path) -> None:
    lines = file.read_text().splitlines()
    numbers = [line for line in lines if " = " in line and not line.startswith(("name", "alias"))]
    device = numbers[: next((i for i, n in enumerate(numbers) if n.startswith("profile")), None)]
    assert len(device) == 10
    assert all("#" in line for line in device)
    assert "[[mig]]" not in lines or "MIG User Guide" in " ".join(lines).replace(
        "Multi-Instance GPU", "MIG"
    )


@pytest.mark.parametrize("spec", ["NVIDIA H100 80GB HBM3", "h100", "H100-SXM", "h100_sxm5"])
def test_a_gpu_has_many_names(spec: str) -> None:
    assert chip_of(spec) is catalogue()["h100"]


def test_an_instance_has_its_own_sms_and_memory() -> None:
    whole, part = chip_of("h100"), chip_of("h100/3g.40gb")
    assert (part.sms, part.total_sms) == (60, 132)
    assert part.dram_bytes_per_second == whole.dram_bytes_per_second / 2
    assert part.is_instance
    assert part is not whole


def test_every_instance_fits_its_gpu() -> None:
    found = [(name, each) for name in catalogue() for each in instances(name).values()]
    assert len(found) >= 20
    for name, each in found:
        whole = catalogue()[name]
        assert each.sms <= whole.sms
        assert each.memory_bytes <= whole.memory_bytes


def test_a_share_divides_sms_and_not_bandwidth() -> None:
    whole = chip_of("h100")
    part = whole.share(40)
    assert part.sms == 52  # pairs
    assert part.dram_bytes_per_second == whole.dram_bytes_per_second
    assert whole.share(1).sms == 2
    assert whole.share(100) is whole


def test_an_unknown_name_lists_near_ones() -> None:
    with pytest.raises(UsageError, match=r"no GPU is named 'h10'; did you mean .*h100") as caught:
        chip_of("h10")
    assert caught.value.exit_code == 2


def test_a_file_of_the_users_own(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text((GPUS / "l4.toml").read_text().replace("sms = 58", "sms = 60"))
    assert chip_of(str(own)).sms == 60


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("sms = 58", "", "misses 'sms'"),
        ("sms = 58", "sms = 58\nspeed = 1", "unknown key 'speed'"),
        ("sms = 58", "sms = 0", "sms is 0"),
        ("sms = 58", "sms = true", "sms is True"),
        ("sms = 58", "sms = 5.5", "not a whole number"),
        ("sms = 58", "sms = = 1", "is not TOML"),
        ('"8.9"', "8.9", "compute-capability"),
        ('memory-kind = "GDDR6"', "memory-kind = 6", "memory-kind is 6, not a text"),
    ],
)
def test_a_bad_file_is_named_with_its_fault(tmp_path: Path, old: str, new: str, says: str) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text((GPUS / "l4.toml").read_text().replace(old, new))
    with pytest.raises(UsageError, match=says) as caught:
        chip_of(str(bad))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_said_to_be_missing() -> None:
    with pytest.raises(UsageError, match=r"there is no file nowhere\.toml"):
        chip_of("nowhere.toml")
