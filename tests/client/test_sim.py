from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tuner.records_of import candidate, plain_task
from tune_farm.client.sim.builder import SimulatedBuilder
from tune_farm.client.sim.child import Kernels
from tune_farm.client.sim.gpus import simulated_gpu
from tune_farm.client.sim.truth import Truth, tile_seconds
from tune_farm.tuner.errors import UsageError
from tune_farm.tuner.interfaces import Artifact
from tune_farm.tuner.loop import untuned
from tune_farm.tuner.measure.messages import MeasureJob, Timing
from tune_farm.tuner.predictor.gpu_tiles import GpuTiles
from tune_farm.tuner.types import Failed, Measured

H100 = simulated_gpu("sim:h100")
CALM = {"noise": 0.0, "busy": 0.0, "slowdown": 1.0}


def tiles(blocks: float) -> GpuTiles:
    one = np.ones(1)
    return GpuTiles(
        blocks=blocks * one,
        threads=256 * one,
        registers=64 * one,
        shared_bytes=16384 * one,
        flops=1e7 * one,
        accumulators=16 * one,
        global_bytes=1e4 * one,
        unique_bytes=1e6 * one,
        shared_traffic_bytes=1e5 * one,
        loads=100 * one,
        vector_bytes=16 * one,
        code=500 * one,
    )


@pytest.mark.parametrize(
    ("percent", "kind", "granted"), [(100, "whole", 132), (25, "mps", 32), (1, "mps", 2)]
)
def test_a_percentage_gives_pairs_of_sms(percent: int, kind: str, granted: int) -> None:
    share = H100.share(percent)

    assert (share.kind, share.granted, share.total) == (kind, granted, 132)
    assert H100.machine_of(share).sms == granted


def test_an_unknown_gpu_has_a_near_one() -> None:
    with pytest.raises(UsageError, match="did you mean sim:h100") as caught:
        simulated_gpu("sim:h10")
    assert "sim:a100" in caught.value.remedy


def test_a_file_describes_one(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "configs/sim/h100.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(text.replace("sms = 132", "sms = 40"))

    assert simulated_gpu(f"sim:{path}").machine.total_sms == 40
    path.write_text(text.replace("sms = 132", "sm = 40"))
    with pytest.raises(UsageError, match="does not describe a GPU"):
        simulated_gpu(f"sim:{path}")


def test_fewer_sms_take_longer_once_the_waves_are_more() -> None:
    whole, quarter = (H100.machine_of(H100.share(percent)) for percent in (100, 25))

    assert tile_seconds(tiles(16), whole) == tile_seconds(tiles(16), quarter)
    assert tile_seconds(tiles(4096), quarter) > 2 * tile_seconds(tiles(4096), whole)


def test_a_schedules_time_is_its_own_and_the_same_each_time() -> None:
    truth = Truth(H100.machine, surprise=0.2, launch_seconds=3e-6)
    task = plain_task()

    assert truth.seconds(task, untuned(task)) == truth.seconds(task, untuned(task)) > 3e-6


def built(tmp_path: Path, *, fault_rate: float = 0.0) -> Artifact:
    truth = Truth(H100.machine, surprise=0.2, launch_seconds=3e-6)
    builder = SimulatedBuilder(
        truth, fault_rate=fault_rate, scratch=tmp_path, should_stop=lambda: False
    )
    task = plain_task()
    builder.select(task)
    (artifact,) = builder.build([untuned(task)])
    assert isinstance(artifact, Artifact)
    return artifact


def job(artifact: Artifact, *, incumbent: float | None = None) -> MeasureJob:
    return MeasureJob(
        task_id="t",
        arguments=(),
        reduction_length=1,
        library=str(artifact.path),
        reference="",
        checks=True,
        makes_reference=False,
        timing=Timing(repeats=3, repeat_seconds=1e-4),
        incumbent_seconds=incumbent,
    )


def test_a_co_tenant_slows_everything_down(tmp_path: Path) -> None:
    artifact = built(tmp_path)
    rng = np.random.default_rng(0)

    calm = Kernels(CALM, rng).run(job(artifact))
    busy = Kernels({**CALM, "busy": 1.0, "slowdown": 1.5}, rng).run(job(artifact))

    assert isinstance(calm, Measured)
    assert isinstance(busy, Measured)
    assert busy.median_seconds == pytest.approx(1.5 * calm.median_seconds)


def test_a_loser_is_stopped_early(tmp_path: Path) -> None:
    outcome = Kernels(CALM, np.random.default_rng(0)).run(job(built(tmp_path), incumbent=1e-12))

    assert isinstance(outcome, Measured)
    assert outcome.stopped_early
    assert len(outcome.repeats_seconds) == 1


def test_some_schedules_fault_and_always_the_same(tmp_path: Path) -> None:
    truth = Truth(H100.machine, surprise=0.2, launch_seconds=3e-6)
    builder = SimulatedBuilder(truth, fault_rate=0.5, scratch=tmp_path, should_stop=lambda: False)
    some = [candidate(index) for index in range(40)]

    faults = [builder._faults(each) for each in some]

    assert faults == [builder._faults(each) for each in some]
    assert 5 < sum(faults) < 35


def test_a_fault_is_told(tmp_path: Path) -> None:
    artifact = built(tmp_path)
    artifact.path.write_text('{"seconds": 1e-5, "faults": true}')

    assert isinstance(Kernels(CALM, np.random.default_rng(0)).run(job(artifact)), Failed)
